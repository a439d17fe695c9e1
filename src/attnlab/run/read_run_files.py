"""Readers of the files of a run folder: a checked value, or one sentence on what is wrong and what to do.

`train.py`, `evaluate.py` and `report.py` read through here alone. A file of a run folder may be cut short, damaged or
a stranger's: it is checked before anything looks into it.
"""

import json
import re
import stat
from collections.abc import Callable, Mapping
from numbers import Real
from pathlib import Path
from typing import Any

import yaml

from attnlab.config.defaults import completed
from attnlab.config.moved_targets import with_present_targets
from attnlab.config.type_check import accepts, hints, record_problem
from attnlab.run.stored_types import Result, Status, StoredConfig

# libyaml's is ten times faster and reads the same
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LARGEST = {"config.yaml": 2**20, "status.json": 2**24, "result.json": 2**24, "wandb_id.txt": 100}
"""bytes; a run writes a few thousand"""
DEEPEST = 50
"""lists and mappings inside each other in config.yaml"""
HEADER = ("step", "name", "value")
"""of metrics.csv"""
_ROW = re.compile(r"(\d{1,15}),([^,\x00-\x1f\x7f\ufffd]+),(-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan))", re.ASCII)


class RunError(Exception):
    """A run that cannot go on: one clear sentence of what, where and what to do."""


class Unreadable(RunError):
    """A file of a run folder that is missing, cut short, damaged or of another kind."""

    def __init__(self, path: Path, problem: str, advice: str) -> None:
        super().__init__(path, problem, advice)
        self.short = f"{path.name} {problem}"

    def __str__(self) -> str:
        path, problem, advice = self.args
        return f"{path} {problem}; {advice}"


class Missing(Unreadable):
    """A file of a run folder that is not there."""


class _PlainDumper(yaml.SafeDumper):
    """Writes what is shared twice, since aliases are refused when the file is read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def config_text(config: Mapping[str, Any]) -> str:
    """A configuration as config.yaml holds it."""
    return yaml.dump(dict(config), Dumper=_PlainDumper, sort_keys=False)


def read_config(path: Path) -> dict[str, Any]:
    """A run's config.yaml, with defaults that an older version did not write and the present paths of classes.

    Raises:
        Unreadable: as `stored_config`.
    """
    return completed(with_present_targets(stored_config(path)))


def stored_config(path: Path) -> dict[str, Any]:
    """A run's config.yaml as it is written: sections and names are there, values are checked by `config.check`.

    Raises:
        Unreadable: it is missing (`Missing`), no yaml, or no run's.
    """
    advice = f"restore it, or move {path.parent} away to begin again"
    config = _parsed(path, _yaml, "yaml", advice)
    if config is None:
        raise Missing(path, f"does not exist: {path.parent} is no run folder", "run folders hold config.yaml")
    if problem := _config_problem(config):
        raise Unreadable(path, f"is cut short or no run's ({problem})", advice)
    return config


def read_status(path: Path) -> dict[str, Any]:
    """A run's status.json; empty where there is none.

    Raises:
        Unreadable: it is no JSON, or no run's.
    """
    return _record(path, lambda status: record_problem(status, Status)) or {}


def read_result(path: Path) -> dict[str, Any] | None:
    """A run's result.json; None where there is none.

    Raises:
        Unreadable: it is no JSON, or no run's.
    """
    return _record(path, _result_problem)


def read_rows(path: Path) -> tuple[list[tuple[int, str, float]], int]:
    """Step, name and value of each line of metrics.csv in order, and how many lines are none and were left out.

    A kill cuts the last line; a power cut may leave zero bytes in place of the last ones.

    Raises:
        Unreadable: it is no file, or cannot be read.
    """
    content = plain_bytes(path, "restore it from a copy, or move it away")
    # What follows the last line end was cut, even where it reads as a row: its number may have lost digits.
    *whole, cut = (content or b"").decode("utf-8", errors="replace").split("\n")
    lines = [line.removesuffix("\r") for line in whole]
    rows = [_ROW.fullmatch(line) for line in lines if line != ",".join(HEADER)]
    found = [(int(row[1]), row[2], float(row[3])) for row in rows if row]
    return found, len(rows) - len(found) + bool(cut)


def _record(path: Path, problem_of: Callable[[Any], str | None]) -> dict[str, Any] | None:
    advice = "remove that file and repeat the training command"
    found = _parsed(path, _json, "JSON", advice)
    if found is not None and (problem := problem_of(found)):
        raise Unreadable(path, f"is no record of a run: {problem}", advice)
    return found


def plain_bytes(path: Path, advice: str) -> bytes | None:
    """The bytes of a file; None where there is none.

    Raises:
        Unreadable: it is a folder, a pipe or the like, far larger than a run writes, or cannot be read.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise Unreadable(path, f"is {'a folder' if stat.S_ISDIR(about.st_mode) else 'no plain file'}", advice)
        if about.st_size > LARGEST.get(path.name, about.st_size):
            raise Unreadable(path, f"has {about.st_size:,} bytes, far more than a run writes", advice)
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(path, f"cannot be read ({error.strerror})", advice) from None


def _parsed(path: Path, parse: Callable[[str], Any], kind: str, advice: str) -> Any:
    """What a file says; None where there is no file."""
    content = plain_bytes(path, advice)
    if content is None:
        return None
    try:
        # nothing, as an empty file says, is no None
        return parse(content.decode("utf-8")) or {}
    except UnicodeError:
        raise Unreadable(path, "is no UTF-8 text", advice) from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        problem = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise Unreadable(path, f"is cut short or no {kind} ({problem})", advice) from None


def _yaml(text: str) -> Any:
    """Yaml without anchors and aliases: a few lines of them stand for more than fits into memory."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        if getattr(event, "anchor", None):
            raise ValueError(f"line {event.start_mark.line + 1} has an anchor or alias, which no run writes")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"line {event.start_mark.line + 1} is nested more than {DEEPEST} deep")
    return yaml.load(text, LOADER)


def _json(text: str) -> Any:
    # Python refuses whole numbers of thousands of digits, and others are too large for a float
    found = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits))
    # half a character, as \ud800, can be written nowhere
    json.dumps(found, ensure_ascii=False).encode()
    return found


def _config_problem(config: Any) -> str | None:
    lacking = [name for name in hints(StoredConfig) if isinstance(config, dict) and name not in config]
    if lacking:
        return f"it lacks {', '.join(lacking)}"
    if problem := record_problem(config, StoredConfig):
        sections = ", ".join(name for name in hints(StoredConfig) if name != "seed")
        return f"{problem}; {sections} are sections, seed is a number"
    if odd := _odd_key(config):
        return f"{odd} is a key"
    options = [option for option in config["task"]["label"] if option not in config["task"]]
    return f"task.label names {options[0]}, and task has no such option" if options else None


def _odd_key(value: Any) -> str | None:
    """A key that is no text, as `1: x` has."""
    if isinstance(value, dict):
        odd = next((repr(key) for key in value if not isinstance(key, str)), None)
        return odd or next(filter(None, map(_odd_key, value.values())), None)
    return next(filter(None, map(_odd_key, value)), None) if isinstance(value, list) else None


def _result_problem(result: Any) -> str | None:
    if isinstance(result, dict) and not isinstance(result.get("metrics"), dict):
        return "it holds no metrics"
    if problem := record_problem(result, Result):
        return problem
    selected = {key: value for key, value in result.get("selection", {}).items() if key.startswith("val/")}
    numbers = {**result["metrics"], **selected}
    odd = next((name for name, value in numbers.items() if not accepts(value, Real)), None)
    return None if odd is None else f"{odd} is no number"
