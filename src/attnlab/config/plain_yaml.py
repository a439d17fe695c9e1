"""Parser of config.yaml files, which may be damaged or a stranger's; equal parts of many files are parsed once."""

import re
from typing import Any, cast

import yaml

from attnlab.config.content_cache import ContentCache
from attnlab.config.dotted_keys import copied
from attnlab.config.yaml_tables import LOADER

DEEPEST = 50
"""maximal depth of lists and mappings"""
_PLAIN = re.compile(r"[a-z][^\n]*\n(?:(?: |- )[^\n]*\n)*")
"""a key at the start of a line, and its value in lines that are indented or begin with a dash"""
_LONGEST_KEPT, _MOST_KEPT = 2**14, 1024
_KEPT = ContentCache[dict[str, Any] | None](_MOST_KEPT)


def parse_yaml(text: str) -> Any:
    """Parse yaml without anchors and aliases, a few lines of which can expand to more than fits into memory.

    Raises:
        ValueError: it has an anchor or an alias, or is nested too deep.
        yaml.YAMLError: it is no yaml.
    """
    found: dict[str, Any] = {}
    for part in _parts(text):
        section = _KEPT.get(part, lambda part=part: _section(part))  # type: ignore[misc]
        if section is None:
            return _parsed(text)
        found |= copied(section)
    return found or _parsed(text)


def _parts(text: str) -> list[str]:
    """The sections of a file as runs write it; none of any other file."""
    # yaml has more line breaks, none of them printable
    if len(text) > _LONGEST_KEPT or not text.replace("\n", "").isprintable():
        return []
    parts = _PLAIN.findall(text)
    return parts if sum(map(len, parts)) == len(text) else []


def _section(text: str) -> dict[str, Any] | None:
    """The only key and value of a part; None if it is anything else."""
    try:
        found = _parsed(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        return None
    return found if isinstance(found, dict) and len(found) == 1 else None


def _parsed(text: str) -> Any:
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
