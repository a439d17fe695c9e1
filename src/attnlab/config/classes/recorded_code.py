"""The code that a run was trained with (`config.classes.source_hash`), as its files record it, beside the code here."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from attnlab.config.classes.source_hash import code_of
from attnlab.config.message_text import listed

Code: TypeAlias = dict[str, str]
"""packages with the hashes of their sources; empty = not recorded"""

CODE = "code"
"""key of the code of every part of a run in turn, in its status, result, checkpoints and evaluations"""
_HASH = re.compile(r"[0-9a-f]{12}")


def recorded_code(record: Mapping[str, Any]) -> list[Code]:
    """The code of every part of a run in turn, from its status, result or checkpoint, which may be a stranger's."""
    return [
        {name: value for name, value in part.items() if str(name).isidentifier() and _HASH.fullmatch(str(value))}
        for part in record.get(CODE, ())
    ]


def changed_words(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The packages whose sources differ; empty if none do, or they were not recorded."""
    changed = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
    return listed(changed, 8) if before and changed else ""


def other_code(record: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The packages whose code here is not the last one of a run, from its status or result, in words; else empty."""
    last = next(reversed(recorded_code(record)), {})
    return changed_words(last, code_of(config)) if last else ""
