"""Code named by configurations: run folders run no foreign code; allowed packages are named by the user."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.small_runs import BRIEF_SCAN, config_of, run_job

from attnlab.attention.base import Attention
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.run_identity import run_folder
from attnlab.config.sweep import check_command
from attnlab.config.targets import TargetError, load_class, read_signature
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.train_cli import train_main
from attnlab.report.cli import report_main
from attnlab.tasks.base import make_task

SMALL = (*BRIEF_SCAN, "model=linear", "train.max_steps=1")
OWN = """
from pathlib import Path

Path({sentinel!r}).write_text("imported")

from attnlab.attention.linear import LinearAttention
from attnlab.tasks.scan.task import Scan


class Mine(LinearAttention):
    pass


class MyScan(Scan):
    pass


class Other:
    def __init__(self, *words, **named):
        raise AssertionError("no attention")
"""
ALLOW = "begin the command with ATTNLAB_PLUGINS=own_package"


@pytest.fixture
def sentinel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that an import of `own_package.parts.mine` writes; the package is found, and not allowed."""
    folder = tmp_path / "own_package" / "parts"
    folder.mkdir(parents=True)
    (folder / "mine.py").write_text(OWN.format(sentinel=str(tmp_path / "sentinel")))
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "own_package"]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path / "sentinel"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    raw = config_of(tmp_path_factory.mktemp("alice"), *SMALL)
    assert run_job(raw, quiet=True) == 0
    return run_folder(raw)


def change_attention(run: Path, target: str) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["model"]["encoder"][0]["attention"]["_target_"] = target
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def change_task(run: Path, target: str) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["task"]["_target_"] = target
    (run / "config.yaml").write_text(yaml.safe_dump(config))


def nest(run: Path, target: str) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["model"]["cross"]["eps"] = [{"deep": {"_target_": target}}]
    (run / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("change", [change_attention, change_task, nest])
@pytest.mark.parametrize("main", [evaluate_main, report_main])
def test_a_strangers_run_folder_runs_no_code(
    change: Callable[[Path, str], None],
    main: Callable[[list[str]], int],
    finished: Path,
    sentinel: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = tmp_path / "from_alice"
    run.mkdir()
    for name in ("config.yaml", "last.ckpt", "metrics.csv", "status.json", "result.json"):
        (run / name).write_bytes((finished / name).read_bytes())
    change(run, f"own_package.parts.mine.{'MyScan' if change is change_task else 'Mine'}")
    key = "run" if main is evaluate_main else "diagnose"
    assert main([f"{key}={run}"]) != 0
    assert ALLOW in capsys.readouterr().err
    assert not sentinel.exists()


def test_a_run_begun_with_a_strangers_runs_no_code(
    finished: Path, sentinel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "from_alice"
    run.mkdir()
    for name in ("config.yaml", "last.ckpt"):
        (run / name).write_bytes((finished / name).read_bytes())
    nest(run, "own_package.parts.mine.Mine")
    assert run_job(config_of(tmp_path, *SMALL, f"from_run='{run}'"), quiet=True) == 1
    message = capsys.readouterr().err
    assert f"from_run={run}: model.cross.eps.0.deep._target_=own_package.parts.mine.Mine: " in message
    assert ALLOW in message and not sentinel.exists()


def test_makers_import_no_other_package(sentinel: Path) -> None:
    """Whoever calls them, with or without the check."""
    with pytest.raises(TargetError, match=ALLOW):
        make_task({"_target_": "own_package.parts.mine.MyScan"})
    with pytest.raises(TargetError, match=ALLOW):
        load_class("own_package.parts.mine.Mine", Attention)
    assert not sentinel.exists()


def test_a_package_of_ones_own_is_used_where_it_is_allowed(
    sentinel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["model.cross._target_=own_package.parts.mine.Mine", *SMALL]
    assert train_main(words) == 2
    assert "model.cross._target_=own_package.parts.mine.Mine: own_package is outside" in capsys.readouterr().err
    monkeypatch.setenv("ATTNLAB_PLUGINS", "another, own_package")
    assert not sentinel.exists()
    raw = config_of(tmp_path, *words)
    assert run_job(raw, quiet=True) == 0
    assert sentinel.exists()
    assert evaluate_main([f"run={run_folder(raw)}", "subset=test/ood"]) == 0


def test_a_class_of_another_kind_is_none(sentinel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = "model.cross._target_=attnlab.tasks.scan.task.Scan"
    problem = f"{scan}: expected a class that extends attnlab.attention.base.Attention, not Scan"
    assert problem in check_config(compose_config([f"+{scan}"]))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "own_package")
    with pytest.raises(TargetError, match=r"expected a class that extends attnlab\.attention\.base"):
        load_class("own_package.parts.mine.Other", Attention)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("attnlb.attention.linear.LinearAttention", "no module attnlb.attention.linear; nearest: attnlab"),
        ("attnlab.attntion.linear.LinearAttention", "no module attnlab.attntion.linear; nearest: attnlab.attention"),
        ("attnlab.attention.lineer.X", "no module attnlab.attention.lineer; nearest: attnlab.attention.linear"),
        ("attnlab.attention.linear.deeper.X", "no module attnlab.attention.linear.deeper"),
        # Folders without __init__.py in folders without: Python's finders raised a bare KeyError.
        ("own_package.parts.deep.mine.X", "no module own_package.parts.deep.mine"),
        ("own_package.parts.mien.X", "no module own_package.parts.mien; nearest: own_package.parts.mine"),
        ("own_package.pars.mine.X", "no module own_package.pars.mine; nearest: own_package.parts"),
        ("own_pakage.parts.mine.X", "no module own_pakage.parts.mine; nearest: own_package"),
        ("own_package.parts.mine.Mina", "no class Mina in own_package.parts.mine; nearest: Mine"),
        ("own_package.broken.X", "own_package.broken cannot be imported: SyntaxError: "),
        ("own_package./etc/passwd.X", "no module own_package./etc/passwd"),
        ("..X", "no module"),
    ],
)
def test_an_unknown_class_is_answered_with_the_nearest(
    path: str, said: str, sentinel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sentinel.parent / "own_package" / "broken.py").write_text("class X(:\n")
    (sentinel.parent / "own_package" / "parts" / "deep").mkdir()
    monkeypatch.setenv("ATTNLAB_PLUGINS", "own_package")
    with pytest.raises(TargetError) as error:
        read_signature(path)
    assert said in str(error.value)


def test_a_target_is_read_anew_when_what_is_allowed_changes(sentinel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "own_package.parts.mine.Mine"
    monkeypatch.setenv("ATTNLAB_PLUGINS", "own_package")
    assert "feature_map" in read_signature(path).arguments
    check_command([f"model.cross._target_={path}", "model.ortho.weight=0"])
    sentinel.unlink()
    del sys.modules["own_package.parts.mine"]
    monkeypatch.delenv("ATTNLAB_PLUGINS")
    with pytest.raises(TargetError, match=ALLOW):
        read_signature(path)
    assert not sentinel.exists()
