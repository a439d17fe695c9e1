"""The page of every configuration key is made from the schema, and every key has a meaning."""

import pytest
from support.small_runs import ROOT

from attnlab.config.command_line.train_help import help_text
from attnlab.config.conf_files import group_choices
from attnlab.config.dotted_keys import flatten
from attnlab.config.job_config import compose_config
from attnlab.config.key_reference import key_lines, page
from attnlab.config.shipped_files import CONF

MAKE = "python -m attnlab.config.key_reference"


def test_the_page_is_the_present_one() -> None:
    """In all sections that it has: a task or an attention of a user's own needs none."""
    head, *sections = (ROOT / "docs" / "configuration.md").read_text().split("\n## ")
    now, *present = page().split("\n## ")
    present = [section.rstrip("\n") for section in present]
    changed = [section.partition("\n")[0] for section in sections if section.rstrip("\n") not in present]
    assert (head, changed) == (now, []), f"write it anew: {MAKE} > docs/configuration.md"
    assert MAKE in help_text() and "configuration.md" in (ROOT / "mkdocs.yml").read_text()


def test_every_key_has_a_type_a_default_and_a_meaning() -> None:
    lines = [line for section in key_lines().values() for line in section]
    assert [line.key for line in lines if not (line.kind and line.default and line.meaning)] == []


@pytest.mark.parametrize("task", group_choices()["task"])
def test_no_key_of_a_run_is_left_out(task: str) -> None:
    sections = key_lines(CONF)
    listed_keys = {line.key for name, section in sections.items() for line in section if "=" not in name}
    listed_keys |= {line.key for line in sections[f"task={task}"]}
    config = compose_config([f"task={task}"])
    config.pop("report", None)
    keys = {key for key in flatten(config) if not key.startswith(("model.encoder", "model.decoder", "model.cross"))}
    assert keys - listed_keys == {"task._target_", "task.name", "task.label", "model.mechanism._target_"}
