"""Every key of a configuration with type, default and meaning: the page `docs/configuration.md`.

Meanings are the docstrings below the fields of the schema, and the `Args:` of the classes of tasks and attentions.

    python -m attnlab.config.key_reference > docs/configuration.md
"""

import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.command_line.option_parser import field_docstrings
from attnlab.config.conf_files import group_choices, merged_yaml, unresolved
from attnlab.config.dotted_keys import flatten, join
from attnlab.config.fill_defaults import model_yaml
from attnlab.config.message_text import show
from attnlab.config.report_block import Report
from attnlab.config.schema import Config
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import Signature, attention_sections, read_signature, yaml_arguments
from attnlab.config.validation.type_check import describe, hints, item_type, section_of

_OPEN = "???"
"""default of a key that each task or model sets, as Hydra writes it"""
_ELSEWHERE = ("task", "report")
"""sections that have tables of their own: options of classes, and the report block"""
_ALL = 1000
"""choices of a key that the page lists"""
_TOP = "run"
"""heading of the keys without a section"""
_PAGE = """# Configuration

Every key that can be set on a command line (`key=value`) or in a yaml of `conf/`, made from the schema by
`python -m attnlab.config.key_reference > docs/configuration.md`. `python train.py ... --cfg job` prints the values of
one run. The keys of [`report`](reports.md) are an experiment's; `0` is an item of a list. Launchers stand in
[Sweeps](sweeps.md).

A default `${...}` is the value of another key; `???` means that each task, or each model, sets the key. Options of an
attention (`model.mechanism...`) are set for all slots that have it, or for one: `model.encoder.0.attention...`,
`model.decoder.0.attention...`, `model.cross...`. Symbols are those of the equations at the top of the attention's file
in `src/attnlab/attention/`; N is the number of positions, D the width of a head.

For users of Hydra: groups such as `experiment=` take no plus, as they are always there; `+key=` sets an option that the
yaml files do not list; `~key` removes an option of a task or an attention, so that its default holds. Jobs run without
Hydra, in folders named by their configuration below `paths.runs`: `hydra.run.dir` and its like are refused.
`--config-dir`, `--config-path` and `--config-name` are not offered: yamls of your own belong into `conf/` of the folder
you start from. Nor are `--info` (`--cfg all` prints Hydra's settings), `--hydra-help` (`--help` lists all words), shell
completion and `--experimental-rerun` (the same command again resumes a run). `--version` prints the version of attnlab.
"""


@dataclass(frozen=True)
class KeyLine:
    """One key: its type in words, its default as in yaml, and its meaning."""

    key: str
    kind: str
    default: str
    meaning: str


def key_lines(conf: Path = CONF) -> dict[str, list[KeyLine]]:
    """The lines of every section, by its heading."""
    lines_by_heading: dict[str, list[KeyLine]] = {_TOP: []}
    values = _yaml_defaults(conf)
    for line in _of_schema(Config, "", values):
        section = line.key.partition(".")[0] if "." in line.key else _TOP
        lines_by_heading.setdefault(section, []).append(line)
    for name in group_choices(conf)["task"]:
        task = unresolved(merged_yaml("task", name, conf))["task"]
        lines_by_heading[f"task={name}"] = _of_class(read_signature(task["_target_"]), "task", task)
    lines_by_heading["report"] = list(_of_schema(Report, "report", {}))
    models = [model_yaml(name, conf) for name in group_choices(conf)["model"]]
    targets = sorted({node["_target_"] for model in models for _, node in attention_sections(model)})
    for target in targets:
        if lines := _of_class(read_signature(target), "model.mechanism", {}):
            lines_by_heading[target.rpartition(".")[2]] = lines
    return lines_by_heading


def page(conf: Path = CONF) -> str:
    """The page with a table for every section that has keys."""
    parts = [_PAGE]
    for heading, lines in key_lines(conf).items():
        if not lines:
            continue
        rows = [[f"`{line.key}`", line.kind, f"`{line.default}`", line.meaning] for line in lines]
        table = [["key", "type", "default", "meaning"], ["---"] * 4, *rows]
        # a bar inside a cell would end it
        text = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in table)
        parts.append(f"## {heading}\n\n{text}\n")
    return "\n".join(parts)


def _yaml_defaults(conf: Path) -> dict[str, Any]:
    """The values that the yaml files give to keys of the schema; `???` where each task or model sets one."""
    top: Any = OmegaConf.to_container(OmegaConf.load(conf / "config.yaml"), resolve=False)
    groups = {"model": "_base", "trainer": "default", "logger": "wandb_offline"}
    sections = {group: unresolved(merged_yaml(group, name, conf)) for group, name in groups.items()}
    return flatten({**top, **unresolved(merged_yaml("task", "_base", conf)), **sections})


def _of_schema(kind: type, key: str, values: Mapping[str, Any]) -> Iterator[KeyLine]:
    meanings = field_docstrings(kind)
    for field in fields(kind):
        path, kind_of_field = join(key, field.name), hints(kind)[field.name]
        if path in _ELSEWHERE:
            continue
        inner = section_of(kind_of_field)
        each = None if item_type(kind_of_field) is None else section_of(item_type(kind_of_field))
        if inner is None:
            default = values.get(path, _default(field))
            text = _OPEN if default is MISSING else show(default)
            yield KeyLine(path, describe(kind_of_field, _ALL), text, meanings.get(field.name, ""))
        if (section := inner or each) is not None:
            yield from _of_schema(section, path if inner else join(path, "0"), values)


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _of_class(signature: Signature, key: str, values: Mapping[str, Any]) -> list[KeyLine]:
    """The options of a class.

    Args:
        values: from the yaml, in place of the constructor's defaults.
    """
    meanings = _argument_docstrings(signature)
    lines = []
    for name, argument in yaml_arguments(signature, key).items():
        text = show(values.get(name, _OPEN if argument.required else argument.default))
        lines.append(KeyLine(join(key, name), describe(argument.annotation, _ALL), text, meanings.get(name, "")))
    return lines


def _argument_docstrings(signature: Signature) -> dict[str, str]:
    """The entries below `Args:` in the docstrings of a class and its bases; the class's own come first."""
    meanings: dict[str, str] = {}
    for level in (level for level in signature.cls.__mro__ if level.__module__.startswith("attnlab.")):
        text = inspect.cleandoc(vars(level).get("__doc__") or "")
        block = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)*)", text, flags=re.MULTILINE)
        for names, meaning in re.findall(
            r"^(\w[\w, ]*): ((?:.*\n?)(?:^ +.*\n?)*)", _dedented(block), flags=re.MULTILINE
        ):
            if not meaning.startswith("as in "):
                meanings = {word: " ".join(meaning.split()).removesuffix(".") for word in names.split(", ")} | meanings
    return meanings


def _dedented(block: re.Match[str] | None) -> str:
    return textwrap.dedent(block[1]) if block else ""


if __name__ == "__main__":
    print(page(), end="")
