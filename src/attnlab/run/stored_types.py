"""Types of the files of a run folder, checked when a file is read: entries that every reader relies on.

Entries with a default may be missing, and a file may hold further entries.
"""

from dataclasses import dataclass, field
from typing import Literal

from attnlab.config.validation.type_check import Integral, Real, Record


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
    hardware: dict = field(default_factory=dict)
    debug: StoredDebug | None = None


@dataclass(frozen=True)
class Checkpoint(Record):
    """last.ckpt, written by Lightning."""

    global_step: Integral
    state_dict: dict
    callbacks: dict


@dataclass(frozen=True)
class BestWeights(Record):
    """best_<rule>_step<step>.pt."""

    step: Integral
    network: dict
