"""Reader of the papers' numbers in experiments/published/*.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from attnlab.config.message_text import hint, listed
from attnlab.config.nearest_word import nearest
from attnlab.config.plain_yaml import LOADER
from attnlab.config.problem import UserError
from attnlab.config.shipped_files import PUBLISHED
from attnlab.config.validation.type_check import Integral, Real, Record

LIVE = {"stored": False}
"""marks fields of a record that are not in report.json"""


class PublishedError(UserError):
    """A file or table of published numbers that is missing or malformed: why."""


@dataclass(frozen=True)
class Value(Record):
    """A published cell.

    value:  in its unit; None where only words are known.
    spread: standard deviation over trials; None where it is not given.
    text:   words of the paper, with or instead of a number.
    source: where in the paper.
    unit:   None = the table's.
    """

    value: Real | None
    spread: Real | None = None
    text: str | None = None
    source: str = field(default="", metadata=LIVE)
    unit: str | None = field(default=None, metadata=LIVE)


@dataclass(frozen=True, kw_only=True)
class Published(Record):
    """A published table; in a report only where it stands.

    cells: by names of row and column.
    """

    paper: str | None = None
    table: str | None = None
    source: str | None = None
    trials: Integral | None = None
    unit: str = field(default="", metadata=LIVE)
    cells: Mapping[tuple[str, str], Value] = field(default_factory=dict, metadata=LIVE)


@cache
def published_table(name: str, folder: Path = PUBLISHED) -> Published:
    """A table by `<file>/<table>`.

    Raises:
        PublishedError: no such file or table, or the file is malformed.
    """
    stem, _, table = name.partition("/")
    file = folder / f"{stem}.yaml"
    if not file.exists():
        files = sorted(path.stem for path in folder.glob("*.yaml"))
        raise PublishedError(f"report.published={name}: no such file{hint(nearest(stem, files))}; {listed(files)}")
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), LOADER)
        tables = content["tables"]
        if table not in tables:
            near = hint(nearest(table, tables))
            raise PublishedError(f"report.published={name}: no such table{near}; {stem} has {listed(tables)}")
        return _table(name, content["paper"], tables[table])
    except (yaml.YAMLError, KeyError, TypeError) as error:
        problem = str(error).split("\n")[0]
        raise PublishedError(f"{file.name}: no file of published numbers ({type(error).__name__}: {problem})") from None


def _table(name: str, paper: str, table: Mapping[str, Any]) -> Published:
    cells = {}
    for cell in table["cells"]:
        source = cell.get("source", table["source"])
        value = Value(cell["value"], cell.get("spread"), cell.get("text"), source, cell.get("unit"))
        cells[str(cell["row"]), str(cell["column"])] = value
    known = {"trials": table.get("trials"), "source": table["source"], "unit": table["unit"]}
    return Published(paper=paper, table=name, cells=cells, **known)
