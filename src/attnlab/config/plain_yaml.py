"""Parser of config.yaml files, which may be damaged or a stranger's."""

from typing import Any, cast

import yaml

from attnlab.config.yaml_tables import LOADER

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
