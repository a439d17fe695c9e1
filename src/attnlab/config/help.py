"""Text of `python train.py --help`: groups and choices from the files, meanings from the schema's docstrings."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

from attnlab.config import schema
from attnlab.config.compose import CONF, group_choices
from attnlab.config.dotted_keys import join
from attnlab.config.option_parser import field_docstrings
from attnlab.config.type_check import hints

_WIDTH = 100
_KEYS = {
    "": "seed",
    "train": "max_steps batch_size precision selection",
    "optim": "lr clip_norm schedule",
    "backbone": "d_model n_heads n_layers d_feed_forward dropout positions",
    "model": "normalization.kind normalization.denominator ortho.weight",
    "trainer": "device threads",
    "logger": "figures_every",
    "paths": "data runs",
}
"""keys that are used most, by section"""

_USAGE = """\
python train.py [group=choice ...] [key=value ...]

  one run     python train.py task=scan model=linear_l2_ortho train.max_steps=1500
  a sweep     python train.py -m task=scan model=linear,linear_l2_ortho seed=0,1,2
  a table     python train.py experiment=park2024/table4_scan, then python report.py experiment=...
  quick look  python train.py task=scan debug=smoke      (a few steps at tiny size: does it work?)

Repeating a command resumes it. Jobs of a sweep at once: hydra/launcher=packed (GPU) or joblib.

Groups (group=choice)"""

_ENDINGS = ("_small", "_ortho")
"""of choices that are shown together with the choice without this ending"""

_REST = """\
Flags
  -m, --multirun   run every combination of comma-separated values: seed=0,1,2 or seed=range(0,3)
  --cfg job        print the whole configuration of the run, as its config.yaml will be, and stop
  -h, --help       this page

+key=value sets an option that a class has and the yaml files do not list.
All keys with their meaning: src/attnlab/config/schema.py; values: conf/; options of tasks and
attentions: the classes named by _target_. More: README.md, evaluate.py --help, report.py --help."""


def help_text(conf: Path = CONF) -> str:
    """The help page."""
    groups = group_choices(conf)
    rows = [_row(group, _by_folder(choices) or "(none yet)", 14) for group, choices in groups.items()]
    tasks = {"task.*": "options of the task's class, such as task.split=simple task.length_cutoff=26"}
    keys = [join(section, name) for section, names in _KEYS.items() for name in names.split()]
    meanings = {key: _meaning(key) for key in keys} | tasks
    width = max(map(len, meanings)) + 4
    used_most = [_row(key, meaning, width) for key, meaning in meanings.items()]
    return "\n".join([_USAGE, *rows, "", "Keys used most (key=value)", *used_most, "", _REST])


def _by_folder(choices: Sequence[str]) -> str:
    """Choices joined by commas, those of a subfolder as `folder/{name, name}`; `name[_small]` stands for two."""
    folders: dict[str, list[str]] = {}
    for choice in choices:
        plain = next((choice.removesuffix(end) for end in _ENDINGS if choice.endswith(end)), "")
        if plain not in choices:
            folder, _, name = choice.rpartition("/")
            also = "".join(f"[{end}]" for end in _ENDINGS if choice + end in choices)
            folders.setdefault(folder, []).append(name + also)
    alone = folders.pop("", [])
    return ", ".join([*alone, *(f"{folder}/{{{', '.join(names)}}}" for folder, names in folders.items())])


def _row(name: str, text: str, indent: int) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)


def _meaning(key: str) -> str:
    """Docstring of a key's field in the schema."""
    kind = schema.Config
    *sections, name = key.split(".")
    for section in sections:
        kind = hints(kind)[section]
    return field_docstrings(kind)[name]
