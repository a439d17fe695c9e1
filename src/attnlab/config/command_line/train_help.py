"""Text of `python train.py --help`: groups and choices from the files, meanings from the schema's docstrings."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from attnlab.config import schema
from attnlab.config.command_line.option_parser import field_docstrings
from attnlab.config.conf_files import group_choices
from attnlab.config.plain_yaml import table_beside
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.type_check import hints

_WIDTH = 100

_ENDINGS = ("_small", "_ortho")
"""of choices that are shown together with the choice without this ending"""


_MOST = 20
"""choices of a folder that are listed; of more, only their number"""


def help_text(conf: Path = CONF) -> str:
    """The help page."""
    texts, groups = table_beside(__file__), group_choices(conf)
    rows = [_row(group, _by_folder(choices) or "(none yet)", 14) for group, choices in groups.items()]
    tasks = {"task.*": "options of the task's class, such as task.split=simple task.length_cutoff=26"}
    meanings = {key: _meaning(key) for key in texts["used_most"]} | tasks
    width = max(map(len, meanings)) + 4
    used_most = [_row(key, meaning, width) for key, meaning in meanings.items()]
    return "\n".join([texts["usage"], *rows, "", "Keys used most (key=value)", *used_most, "", texts["rest"]])


def _by_folder(choices: Sequence[str]) -> str:
    """Choices joined by commas, choices of a subfolder as `folder/{name, name}`; `name[_small]` stands for two, and
    `folder/* (41 choices)` for many."""
    folders: dict[str, list[str]] = {}
    for choice in choices:
        plain = next((choice.removesuffix(end) for end in _ENDINGS if choice.endswith(end)), "")
        if plain not in choices:
            folder, _, name = choice.rpartition("/")
            variants = "".join(f"[{end}]" for end in _ENDINGS if choice + end in choices)
            folders.setdefault(folder, []).append(name + variants)
    alone = folders.pop("", [])
    listed = (
        f"{folder}/{{{', '.join(names)}}}" if len(names) <= _MOST else f"{folder}/* ({len(names)} choices)"
        for folder, names in folders.items()
        if not folder.endswith("/pilots")
    )
    return ", ".join([*alone, *listed])


def _row(name: str, text: str, indent: int) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)


def _meaning(key: str) -> str:
    """Docstring of a key's field in the schema."""
    kind = schema.Config
    *sections, name = key.split(".")
    for section in sections:
        kind = hints(kind)[section]
    return field_docstrings(kind)[name]
