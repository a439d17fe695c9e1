"""The text of --help."""

import re

import pytest

import attnlab
from attnlab.config.command_line.train_help import help_text
from attnlab.config.conf_files import group_choices
from attnlab.launch.train_cli import train_main


def test_help_names_every_group_and_fits() -> None:
    text = help_text()
    for group, choices in group_choices().items():
        assert group in text
        claims = [choice for choice in choices if choice.startswith("claims/") and choice.count("/") == 1]
        others = [choice for choice in choices if not choice.startswith("claims/")]
        assert all(part in text for choice in others for part in re.sub("_(small|ortho)$", "", choice).split("/"))
        assert not claims or f"claims/* ({len(claims)} choices)" in text
    assert "table4_scan[_small]" in text and "linear_l2[_ortho]" in text
    assert "peak learning rate" in text, "meanings come from the schema"
    assert all(len(line) <= 100 for line in text.splitlines())
    assert len(text.splitlines()) <= 90


def test_the_version_is_ours(capsys: pytest.CaptureFixture) -> None:
    assert train_main(["--version"]) == 0
    assert capsys.readouterr().out == f"attnlab {attnlab.__version__}\n"
