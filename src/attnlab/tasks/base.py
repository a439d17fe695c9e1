"""The contract of a task: data, splits and what a model must know of them.

A task is a class with explicit, annotated options (they are the keys of `task.*`, checked before anything runs), a yaml
in `conf/task/` that names it by `_target_`, and a docstring that shows one real example.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from attnlab.config.plugins import load_class
from attnlab.config.target_validation import TASK_KEYS
from attnlab.data.examples import Examples
from attnlab.data.files.archive import Source
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import Kind, Modality, TaskSpec


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A task ready to train on.

    spec:    what the model needs to know.
    subsets: `train`, and any of `val`, `test`, `test/iid`, `test/ood`; the test ones are read after training only.
    decode_limits: longest output a model may write on a subset, end token included; a property of the split, not of a
             batch. Empty for classification.
    train_groups: example numbers of `train` that fill batches in turn (in the order of its `turns`); one group of all
             by default.
    about: one sentence on what the numbers are computed on, for every result; says where data is partial or a stand-in.
    keep: files that the run folder keeps a copy of, by their names there (`tokenizer.json`).
    """

    spec: TaskSpec
    subsets: Mapping[str, Examples]
    decode_limits: Mapping[str, int] = field(default_factory=dict)
    about: str = ""
    keep: Mapping[str, Path] = field(default_factory=dict)

    @property
    def train_groups(self) -> list[np.ndarray]:
        train = self.subsets["train"]
        return [np.asarray(train.groups[name]) for name in train.turns or train.groups] or [np.arange(len(train))]

    def data_hash(self) -> str:
        """sha256 (16 hex digits) over every subset; equal hashes mean equal data."""
        digest = hashlib.sha256()
        for name in sorted(self.subsets):
            digest.update(name.encode())
            for array in self.subsets[name].arrays():
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


class Task(ABC):
    """A task. Subclasses set the class attributes and take their options as explicit, annotated arguments.

    kind, modality: as in TaskSpec; read without importing the module, to refuse impossible pairs before any work.
    version:        changes when numbers stop being comparable; recorded with every result.
    has_validation: whether there is a `val` subset to select weights by.
    has_groups:     whether examples fall into named parts with metrics of their own.
    subsets:        names of all that `prepare` can give; a wrong `subset=` is refused by them before anything loads.
    subsets_with:   those of certain options, by option and value, where they are others: {"split": {"length": ...}}.
    published:      subsets and their published sizes, for the list of tasks.

    Options are annotated with int, float, bool, str, Literal[...] or Annotated[int, "[1, inf)"] (an interval,
    `attnlab.config.intervals`); `attnlab.config` reads them from the source, without importing the module.
    """

    kind: ClassVar[Kind]
    modality: ClassVar[Modality]
    version: ClassVar[int]
    has_validation: ClassVar[bool] = False
    has_groups: ClassVar[bool] = False
    subsets: ClassVar[Sequence[str]]
    subsets_with: ClassVar[Mapping[str, Mapping[Any, Sequence[str]]]] = {}
    published: ClassVar[str]

    def sources(self) -> Sequence[Source]:
        """The official files that these options read; none for what is generated."""
        return ()

    @abstractmethod
    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        """Example `number` of a subset for a reader: input and target, in a few lines."""

    def token_names(self) -> tuple[Sequence[str], Sequence[str]] | None:
        """What input ids and output ids are called at the axes of figures; None where they have no short names."""
        return None

    @abstractmethod
    def prepare(self, folders: Folders) -> Prepared:
        """Generate or fetch the data once (safe when several processes start together) and load it.

        Raises:
            attnlab.data.files.fetch.DataError: files missing, cut short or changed: what, where, what to do.
        """


def make_task(options: Mapping[str, Any]) -> Task:
    """The task that `task._target_` names, with the other keys of a configuration's `task` as its arguments.

    Raises:
        TargetError: the class may not be named (`config.plugins`), or is no task.
    """
    task_class = load_class(options["_target_"], Task)
    return task_class(**{key: value for key, value in options.items() if key not in TASK_KEYS})
