"""Readers of yaml files: tables of facts, and config.yaml files, which may be damaged or a stranger's."""

from pathlib import Path
from typing import Any, cast

import yaml

# the loader of libyaml is ten times faster
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def table_beside(module: str, name: str | None = None) -> dict[str, Any]:
    """A table in the folder of a module.

    Args:
        module: its `__file__`.
        name: of the yaml file; None = the name of the module.
    """
    file = Path(module).with_name(name or f"{Path(module).stem}.yaml")
    return yaml.load(file.read_text(encoding="utf-8"), LOADER)


def yaml_problem(error: yaml.YAMLError) -> str:
    """What is wrong in a text that is no yaml, with the line."""
    mark = getattr(error, "problem_mark", None)
    place = f"line {mark.line + 1}: " if mark else ""
    return f"no yaml ({place}{getattr(error, 'problem', None) or 'syntax'})"


DEEPEST = 50
"""maximal depth of lists and mappings"""


def parse_yaml(text: str) -> Any:
    """Parse yaml without anchors and aliases, a few lines of which can expand to more than fits into memory.

    Raises:
        ValueError: it has an anchor or an alias, or is nested too deep.
        yaml.YAMLError: it is no yaml.
    """
    depth = 0
    for event in yaml.parse(text, LOADER):
        # the parser gives every event its place
        line = cast(yaml.Mark, event.start_mark).line + 1
        if getattr(event, "anchor", None):
            raise ValueError(f"line {line} has an anchor or alias, which no run writes")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"line {line} is nested more than {DEEPEST} deep")
    return yaml.load(text, LOADER)
