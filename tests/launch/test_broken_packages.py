"""Packages that are installed and cannot be imported: one sentence in place of a traceback."""

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import pytest
from support.slow_cases import slow_except
from support.small_runs import ROOT, environment, settings

from attnlab.config.classes.broken_packages import import_problem
from attnlab.config.command_line.command_frame import FAILED, command

OPERATOR = 'raise RuntimeError("operator torchvision::nms does not exist")'


def installed(folder: Path, name: str, code: str, requires: Sequence[str] = (), version: str = "0.28.0") -> None:
    """A package in a folder, as pip installs it."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    (info := folder / f"{name}-{version}.dist-info").mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name.replace('_', '-')}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {line}" for line in requires), ""]))


def run_beside(folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """A command with the packages of a folder beside all others."""
    env = environment()
    env["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT / "src")])
    words = [sys.executable, *line]
    return subprocess.run(words, capture_output=True, text=True, env=env, cwd=ROOT, timeout=240, check=False)


@pytest.mark.parametrize("more", slow_except(["", "-m seed=0,1", "-m seed=0,1 hydra/launcher=basic"], [""]))
def test_a_torchvision_that_does_not_fit_torch_is_named(tmp_path: Path, more: str) -> None:
    """Lightning imports it by way of torchmetrics, wherever it is installed."""
    installed(tmp_path, "torchvision", OPERATOR)
    done = run_beside(tmp_path, "train.py", *settings(tmp_path / "runs"), *more.split())
    assert done.returncode == FAILED and "Traceback" not in done.stderr
    torch = metadata.version("torch")
    for word in ("torchvision 0.28.0", f"torch {torch}", "torchvision::nms", "pip uninstall torchvision"):
        assert word in done.stderr
    assert run_beside(tmp_path, "train.py", "--help").returncode == 0


def error_of(code: str) -> Exception:
    """What code of no module raises."""
    with pytest.raises(Exception) as raised:
        exec(code, {"__name__": "__main__"})
    return raised.value


@pytest.mark.parametrize(
    "error", ["TypeError('size changed')", "OSError('lib.so')", "ImportError('no name')", "ValueError()"]
)
def test_the_package_that_raises_is_named_with_its_importer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    installed(tmp_path, "outer_kit", "import inner_kit", ["inner-kit>=1; extra == 'more'", "numpy"], "1.5")
    installed(tmp_path, "inner_kit", f"def fail():\n    raise {error}\n\nfail()")
    installed(tmp_path, "needy_kit", "import inner_kit", ["Inner.Kit>=1"])
    monkeypatch.syspath_prepend(tmp_path)
    problem = import_problem(error_of("import outer_kit"))
    for word in ("inner_kit 0.28.0", "outer_kit imports", error.partition("(")[0], "pip uninstall inner_kit"):
        assert word in problem
    assert "uninstall" not in import_problem(error_of("import needy_kit"))
    assert "inner_kit 0.28.0 cannot" in import_problem(error_of("import inner_kit"))


def test_errors_of_functions_of_attnlab_and_of_the_users_modules_keep_their_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_package.py").write_text("1 / 0")
    installed(tmp_path, "useful_kit", "def divide():\n    1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("ATTNLAB_PLUGINS", "own_package")
    for code in ("1 / 0", "import own_package", "import useful_kit\nuseful_kit.divide()"):
        assert import_problem(error_of(code)) == ""


def test_the_frame_of_commands_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(tmp_path, "broken_kit", "1 / 0")
    monkeypatch.syspath_prepend(tmp_path)

    @command(lambda: "")
    def main(argv: Sequence[str]) -> int:
        if argv == ["here"]:
            raise ZeroDivisionError
        import broken_kit

        return len(vars(broken_kit))

    assert main(["word"]) == FAILED
    assert "broken_kit 0.28.0" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main(["here"])
