"""Broken yamls in the `conf/` of the current folder: a sentence where they are named, nothing elsewhere."""

from pathlib import Path

import pytest

from attnlab.config.problem import ConfigError
from attnlab.config.sweep import check_command
from attnlab.launch.tasks_cli import main as tasks_main

BROKEN = {
    "model/broken": ("encoder: [\n", "model=broken: does not compose: no yaml (line 2: "),
    "model/listed": ("- a\n", "model=[a]: model is a section, not a value"),
    "model/empty": ("", "model.encoder: missing"),
    "task/number": ("# @package _global_\ntask: 3\n", "task=3: expected key: value pairs"),
}


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with all broken files."""
    for name, (text, _) in BROKEN.items():
        file = tmp_path / "conf" / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_that_is_named_is_a_problem(name: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_command([name.replace("/", "=")])
    assert BROKEN[name][1] in str(error.value)


@pytest.mark.usefixtures("broken")
def test_other_commands_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert check_command(["task=scan", "model=linear"]).jobs
    with pytest.raises(ConfigError, match="models that can: based, "):
        check_command(["task=scan", "model=vanilla", "model.normalization.kind=l2"])
    assert tasks_main(["number"]) == 2
    assert "task=3" in capsys.readouterr().err
