"""The contract of a task: its data, its splits, and the properties that a model depends on.

A task is a class with explicit, annotated options (the keys of `task.*`, checked before anything runs), a yaml in
`conf/task/` that names it in `_target_`, and a module docstring with one real example. Tasks on sequences of words
extend a class of `attnlab.tasks.word_tasks`, which makes the examples and the TaskSpec from lists of words.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from attnlab.config.targets import TASK_KEYS, load_class
from attnlab.data.batch import Batch
from attnlab.data.examples import Examples
from attnlab.data.files.cache import build_once, cache_key
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.task_spec import Modality, TaskSpec
from attnlab.tasks.shortcuts import Shortcut, general_shortcuts

ExamplesT_co = TypeVar("ExamplesT_co", bound=Examples, covariant=True)


@dataclass(frozen=True, kw_only=True)
class Prepared(Generic[ExamplesT_co]):
    """The data of a task, ready for training; `Prepared[X]` has subsets of class X.

    spec:    properties that a model depends on.
    subsets: `train`, and any of `val`, `test`, `test/iid`, `test/ood`; test subsets are read only after training.
    decode_limits: longest output of a model by subset, with the end token; a property of the split, not of a batch.
             Empty for classification.
    about:   one sentence about the data for every result; names partial data and stand-ins.
    keep:    files that are copied to the run folder, by their names there (`tokenizer.json`).
    shortcuts: scores of the shortcuts (`Task.shortcuts`) by metric and name; filled in when a run prepares its data.
    """

    spec: TaskSpec
    subsets: Mapping[str, ExamplesT_co]
    decode_limits: Mapping[str, int] = field(default_factory=dict)
    about: str = ""
    keep: Mapping[str, Path] = field(default_factory=dict)
    shortcuts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Prepared({', '.join(f'{name}: {part!r}' for name, part in self.subsets.items())})"

    @property
    def train_groups(self) -> list[np.ndarray]:
        """Example numbers of the groups of `train`, in the order of its `turns`; one group of all by default."""
        train = self.subsets["train"]
        return [np.asarray(train.groups[name]) for name in train.turns or train.groups] or [np.arange(len(train))]

    def data_hash(self) -> str:
        """sha256 (16 hex digits) of all subsets; equal hashes mean equal data."""
        digest = hashlib.sha256()
        for name in sorted(self.subsets):
            digest.update(name.encode())
            for array in self.subsets[name].arrays():
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


class Task(ABC):
    """Base class of tasks; subclasses set class attributes and have explicit, annotated options.

    kind, modality: as in TaskSpec; the configuration check uses them.
    version:      changes when results are no longer comparable; stored with every result.
    has_groups:   whether named parts of a subset have metrics of their own.
    subsets:      names of the subsets: `train`, at least one test subset (`test`, `test/iid`, `test/ood`),
                  and `val` where weights are selected by validation.
    subsets_with: other subsets for some values of an option: {"split": {"length": ...}}. With an option
                  `validation_share` above 0 there is `val` after `train` too.
    drawn_with:   values of an option with which `data_seed` draws data: {"source": ("generated",)}; empty = with all.
                  With other values the seed is refused, unless a `validation_share` is drawn.
    published:    subsets and their published sizes, for the list of tasks; empty = not published.

    Options are annotated with int, float, bool, str, Literal[...] or Annotated[int, "[1, inf)"] (an interval,
    `attnlab.config.validation.ranges`).
    """

    kind: ClassVar[str]
    modality: ClassVar[Modality]
    version: ClassVar[int] = 1
    has_groups: ClassVar[bool] = False
    subsets: ClassVar[Sequence[str]]
    subsets_with: ClassVar[Mapping[str, Mapping[Any, Sequence[str]]]] = {}
    drawn_with: ClassVar[Mapping[str, Sequence[Any]]] = {}
    published: ClassVar[str] = ""

    def require_possible(self) -> None:
        """Checks that the options fit each other, before any data is read or drawn.

        Raises:
            DataError: no data has these options; the message begins with the key.
        """
        return

    def sources(self) -> Sequence[DataSource]:
        """Sources of the official files for these options; empty for generated data."""
        return ()

    def task_spec(self, **properties: Any) -> TaskSpec:
        """The TaskSpec with the kind and the modality of the task, unless they are among the properties."""
        return TaskSpec(**{"kind": self.kind, "modality": self.modality, **properties})

    @abstractmethod
    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        """Input and target of an example as text of a few lines."""

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[Any]) -> Batch:
        """Inputs as a user writes them in Python, as one batch without answers; the class says what an input is.

        Raises:
            DataError: an input that the task does not know (`InputError`, if it is said which one).
        """
        raise DataError(f"{type(self).__name__} has no encode_inputs: it does not say how inputs are written in Python")

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Any]) -> list[Any]:
        """Outputs of `Kind.predict` as a user reads them; unchanged where the task does not say more."""
        return list(outputs)

    def token_names(self) -> tuple[Sequence[str], Sequence[str]] | None:
        """Names of the input ids and output ids for the axes of figures; None without short names."""
        return None

    def shortcuts(self, prepared: Prepared) -> Mapping[str, Shortcut]:
        """Answers that need no understanding of the input, by name, from the training data (`tasks.shortcuts`)."""
        return general_shortcuts(prepared.spec, prepared.subsets["train"])

    @abstractmethod
    def prepare(self, folders: Folders) -> Prepared:
        """Generates or downloads the data once (safe for concurrent processes) and loads it.

        Raises:
            attnlab.data.files.fetch.DataError: files are missing, cut short or changed; says what to do.
        """

    def cached(
        self, cache: Path, name: str, options: Mapping[str, object], build: Callable[[Path], None], data_name: str = ""
    ) -> Path:
        """The cache folder for these options and this version, filled by `build` unless an earlier build exists.

        Args:
            name: beginning of the folder's name.
            data_name: names the data in messages; the folder's name by default.
        """
        folder = cache / cache_key(name, self.version, options)
        return build_once(folder, build, data_name or folder.name)

    def cached_text(self, cache: Path, name: str, options: Mapping[str, object], text: Callable[[], str]) -> str:
        """A text that takes time, from the cache."""
        return (self.cached(cache, name, options, lambda folder: _write(folder, text())) / "text").read_text()


def _write(folder: Path, text: str) -> None:
    (folder / "text").write_text(text)


def make_task(options: Mapping[str, Any]) -> Task:
    """The task of a configuration's `task` node: `_target_` is its class, the other keys are its arguments.

    Raises:
        TargetError: the class is not allowed (`config.targets`), or is not a task.
    """
    task_class = load_class(options["_target_"], Task)
    return task_class(**{key: value for key, value in options.items() if key not in TASK_KEYS})
