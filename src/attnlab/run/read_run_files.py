"""Readers of the files of a run folder, and the types by which they are checked: entries that every reader relies on.

A reader returns a checked value, or an error that says what to do. Entries of a type with a default may be missing, and
a file may hold further entries.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from attnlab.config.fill_defaults import completed
from attnlab.config.plain_json import restored
from attnlab.config.plain_yaml import parse_yaml
from attnlab.config.problem import UserError
from attnlab.config.run_identity import identity
from attnlab.config.validation.type_check import Integral, Real, Record, accepts, hints, record_problem
from attnlab.data.files.regular_file import NotRegular, read_regular
from attnlab.learn.weight_files import IDENTITY

LARGEST = {"config.yaml": 2**20, "status.json": 2**24, "result.json": 2**24, "wandb_id.txt": 100, "metrics.csv": 2**30}
"""maximal size in bytes; a run writes a few thousand, and a hundred million into metrics.csv at most"""
CHECKSUMS = {"result.json": "result_file", "metrics.csv": "metrics_file"}
"""entries of status.json with the `checksum` of another file"""
HEADER = ("step", "name", "value")
"""of metrics.csv"""
_ROW = re.compile(r"(\d{1,15}),([^,\x00-\x1f\x7f\ufffd]+),(-?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|inf|nan))", re.ASCII)


@dataclass(frozen=True)
class StoredGroup(Record):
    share: Real | None


@dataclass(frozen=True)
class StoredTask(Record):
    name: str
    label: list[str]
    _target_: str = ""


@dataclass(frozen=True)
class StoredModel(Record):
    name: str
    encoder: list[StoredGroup] = field(default_factory=list)
    decoder: list[StoredGroup] = field(default_factory=list)


@dataclass(frozen=True)
class StoredConfig(Record):
    """config.yaml; its values are checked by `config.job_config`."""

    task: StoredTask
    backbone: dict
    model: StoredModel
    optim: dict
    train: dict
    trainer: dict
    logger: dict
    paths: dict
    seed: Integral


@dataclass(frozen=True)
class StoredChecksum(Record):
    """Size and hash of a file of the run; of metrics.csv, of its first bytes."""

    bytes: Integral
    sha256: str


@dataclass(frozen=True)
class StoredData(Record):
    hash: str | None = None


@dataclass(frozen=True)
class StoredDebug(Record):
    """How much of each test subset a run of `debug=...` was evaluated on."""

    sizes: dict
    eval_batches: Integral


@dataclass(frozen=True)
class Status(Record):
    state: Literal["running", "finished", "failed", "stopped"]
    reason: str = ""
    step: Integral = 0
    pid: Integral = 0
    host: str = ""
    attnlab: str = ""
    started: str = ""
    commits: list[dict] = field(default_factory=list)
    code: list[dict] = field(default_factory=list)
    declared: list[dict] = field(default_factory=list)
    seconds: Real | None = None
    step_seconds: Real | None = None
    last_stop: dict = field(default_factory=dict)
    hardware: dict = field(default_factory=dict)
    data: StoredData = field(default_factory=StoredData)
    log_every: Integral | None = None
    from_run: dict = field(default_factory=dict)
    identity: dict = field(default_factory=dict)
    metrics_file: StoredChecksum | None = None
    result_file: StoredChecksum | None = None


@dataclass(frozen=True)
class Selection(Record):
    rule: str = ""
    step: Integral = 0


@dataclass(frozen=True)
class Git(Record):
    commit: str | None = None


@dataclass(frozen=True)
class Result(Record):
    metrics: dict
    shortcuts: dict = field(default_factory=dict)
    counts: dict = field(default_factory=dict)
    selection: Selection = field(default_factory=Selection)
    seconds: Real = 0
    steps_per_second: Real = 0
    parameters: Real = 0
    state_size: Real = 0
    peak_memory_bytes: Real = 0
    versions: dict = field(default_factory=dict)
    data: StoredData = field(default_factory=StoredData)
    git: Git = field(default_factory=Git)
    code: list[dict] = field(default_factory=list)
    hardware: dict = field(default_factory=dict)
    debug: StoredDebug | None = None


@dataclass(frozen=True)
class Checkpoint(Record):
    """last.ckpt, written by Lightning."""

    global_step: Integral
    state_dict: dict
    callbacks: dict
    code: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class BestWeights(Record):
    """best_<rule>_step<step>.pt."""

    step: Integral
    network: dict
    code: list[dict] = field(default_factory=list)


class RunError(UserError):
    """A run that cannot continue: one sentence that says what is wrong, where, and what to do."""


class Unreadable(RunError):
    """A file of a run folder that is missing, cut short, damaged or of another kind."""

    def __init__(self, path: Path, problem: str, advice: str) -> None:
        super().__init__(path, problem, advice)
        self.short = f"{path.name} {problem}"

    def __str__(self) -> str:
        path, problem, advice = self.args
        return f"{path} {problem}; {advice}"


class Missing(Unreadable):
    """A file of a run folder that does not exist."""


class _PlainDumper(yaml.SafeDumper):
    """Writes shared values out each time, since aliases are refused when the file is read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def config_text(config: Mapping[str, Any]) -> str:
    """Text of config.yaml for a configuration."""
    return yaml.dump(dict(config), Dumper=_PlainDumper, sort_keys=False)


def read_config(path: Path, of_classes: bool = True) -> dict[str, Any]:
    """Reads config.yaml as `stored_config`, with defaults that an older version did not write (`completed`)."""
    return completed(stored_config(path), of_classes)


def stored_config(path: Path) -> dict[str, Any]:
    """Reads config.yaml without changes; Unreadable if it is missing (`Missing`), no yaml or no run's. Values are
    checked by `config.job_config`.
    """
    advice = f"restore it, or move {path.parent} away to begin again"
    if (content := plain_bytes(path, advice)) is None:
        raise Missing(path, f"does not exist: {path.parent} is no run folder", "run folders hold config.yaml")
    config = _parsed(path, content, parse_yaml, "yaml", advice)
    if problem := _config_problem(config):
        raise Unreadable(path, f"is cut short or no run's ({problem})", advice)
    return config


def read_status(path: Path) -> dict[str, Any]:
    """Reads status.json; empty if there is none, Unreadable if it is damaged or of another run than config.yaml."""
    status, _ = _record(path, lambda status: record_problem(status, Status))
    if status and IDENTITY in status and (other := other_run(status[IDENTITY], path.parent)):
        raise Unreadable(path, f"is of {other} than config.yaml", f"restore the files of {path.parent} from a copy")
    return status or {}


def read_result(path: Path) -> dict[str, Any] | None:
    """Reads result.json; None if there is none; Unreadable if it is not as the run has written it."""
    result, content = _record(path, _result_problem)
    if result is not None:
        _require_as_written(path, content, IDENTITY in result)
    return result


def other_run(run_identity: Any, folder: Path) -> str | None:
    """Names the run of an identity if that is not the run of a folder's config.yaml (`stored_config`): `another run
    (seed 1 instead of 0)`; else None.
    """
    config = stored_config(folder / "config.yaml")
    folder_identity = identity(config)
    if run_identity == folder_identity:
        return None
    differing = [key for key in ("task", "model", "seed") if run_identity.get(key) != folder_identity[key]]
    others = ", ".join(f"{key} {run_identity.get(key)} instead of {folder_identity[key]}" for key in differing)
    return f"another run ({others or 'of another configuration'})"


def checksum(content: bytes) -> dict[str, Any]:
    """Size and hash by which status.json binds a file to the run; of metrics.csv, of its rows so far."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _require_as_written(path: Path, content: bytes | None, is_bound: bool = False) -> None:
    """Compares a file's content (None: no file) with its checksum in status.json; rows may follow in metrics.csv until
    the run has its result. `is_bound`: the file itself says that there is a checksum.
    """
    status = read_status(path.with_name("status.json"))
    expected, advice = status.get(CHECKSUMS[path.name]), f"{_advice(path)}, or restore it from a copy"
    if expected is None:
        if is_bound:
            raise Unreadable(path, "has no checksum in status.json: one of them is of another run", advice)
        return
    if content is None:
        raise Missing(path, "is missing, and status.json says that the run has written it", advice)
    grows = path.name == "metrics.csv" and status.get(CHECKSUMS["result.json"]) is None
    if checksum(content[: max(expected["bytes"], 0)] if grows else content) != expected:
        raise Unreadable(path, "is not as the run has written it (another checksum than in status.json)", advice)


def _advice(path: Path) -> str:
    return "move it away" if path.name == "metrics.csv" else "remove that file and repeat the training command"


def debug_note(result: Mapping[str, Any]) -> str:
    """Note on a result whose evaluations took a few batches only (`train.eval_batches`); else empty."""
    if not result.get("debug"):
        return ""
    sizes, counts = result["debug"]["sizes"], result["counts"]
    parts = [f"{counts[name]:,} of {sizes[name]:,} examples of {name}" for name in sizes if name in counts]
    return f"debug: evaluated on {', '.join(parts)} (train.eval_batches={result['debug']['eval_batches']})"


def read_rows(path: Path) -> tuple[list[tuple[int, str, float]], int]:
    """Reads metrics.csv: rows (step, name, value) in order, and the number of damaged lines, which are left out.

    A killed process may leave an incomplete last line, a power cut zero bytes instead of the last lines.

    Raises:
        Unreadable: it is not a plain file, cannot be read, or is not as the run has written it.
    """
    content = plain_bytes(path, "restore it from a copy, or move it away")
    _require_as_written(path, content)
    # A last line without line end is incomplete, even if it looks like a row: its number may have lost digits.
    *whole, cut = (content or b"").decode("utf-8", errors="replace").split("\n")
    lines = [line.removesuffix("\r") for line in whole]
    rows = [_ROW.fullmatch(line) for line in lines if line != ",".join(HEADER)]
    read = [(int(row[1]), row[2], float(row[3])) for row in rows if row]
    return read, len(rows) - len(read) + bool(cut)


def _record(path: Path, problem_of: Callable[[Any], str | None]) -> tuple[dict[str, Any] | None, bytes | None]:
    """Content of a json file, parsed and as bytes; None if it does not exist."""
    content = plain_bytes(path, _advice(path))
    record = None if content is None else _parsed(path, content, _json, "JSON", _advice(path))
    if record is not None and (problem := problem_of(record)):
        raise Unreadable(path, f"is no record of a run: {problem}", _advice(path))
    return record, content


def plain_bytes(path: Path, advice: str) -> bytes | None:
    """Bytes of a file; None without it, Unreadable if it is no plain file, larger than `LARGEST`, or not readable."""
    try:
        return read_regular(path, LARGEST.get(path.name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular as error:
        raise Unreadable(path, str(error.strerror), advice) from None
    except OSError as error:
        raise Unreadable(path, f"cannot be read ({error.strerror})", advice) from None


def _parsed(path: Path, content: bytes, parse: Callable[[str], Any], kind: str, advice: str) -> Any:
    """Parsed content of a file."""
    try:
        # an empty file is parsed as None
        return parse(content.decode("utf-8")) or {}
    except UnicodeError:
        raise Unreadable(path, "is no UTF-8 text", advice) from None
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        problem = str(getattr(error, "problem", None) or error).split("\n")[0]
        raise Unreadable(path, f"is cut short or no {kind} ({problem})", advice) from None


def _json(text: str) -> Any:
    content = json.loads(
        text,
        # Python refuses integers of thousands of digits, and shorter ones may be too large for a float
        parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits),
        # names of metrics are in the memory once, not once for each run of a report
        object_pairs_hook=lambda pairs: {sys.intern(name): value for name, value in pairs},
    )
    # a lone surrogate, such as \ud800, cannot be encoded
    json.dumps(content, ensure_ascii=False).encode()
    return restored(content)


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
    """The first key that is not text, as in `1: x`."""
    keys = [repr(key) for key in value if not isinstance(key, str)] if isinstance(value, dict) else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, [*keys, *map(_odd_key, parts)]), None)


def _result_problem(result: Any) -> str | None:
    if isinstance(result, dict) and not isinstance(result.get("metrics"), dict):
        return "it holds no metrics"
    if problem := record_problem(result, Result):
        return problem
    selected = {key: value for key, value in result.get("selection", {}).items() if key.startswith("val/")}
    numbers = {**result["metrics"], **selected, **result.get("counts", {})}
    numbers |= (result.get("debug") or {"sizes": {}})["sizes"]
    for key, of in result.get("shortcuts", {}).items():
        numbers |= {f"shortcuts.{key}.{name}": of[name] for name in of} if isinstance(of, dict) else {"shortcuts": None}
    # most are floats, for which the question would take long
    odd = next((name for name, value in numbers.items() if type(value) is not float and not accepts(value, Real)), None)
    return None if odd is None else f"{odd} is no number"
