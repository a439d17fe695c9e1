"""Base classes of tasks on sequences of words: sequence to sequence, and classification.

A subclass sets vocabularies and `subsets` and returns the words of its examples, from `pairs` or `examples`; ids,
framing, padding, limits of decoding and the TaskSpec are made from them. A word is any text that its vocabulary has; a
sequence is a list of words, or a `str`, whose characters are the words.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Annotated, ClassVar, Literal, TypedDict, TypeVar

import numpy as np

from attnlab.config.message_text import listed
from attnlab.data.batch import Batch, LabelledBatch
from attnlab.data.examples import LabelledSequences, SequencePairs
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.task_spec import ORACLE_END, SEQUENCE_METRICS
from attnlab.data.user_inputs import TEXT, encoded, labelled_batch, sequence_batch
from attnlab.data.validation_slice import longest_aside, repeated, set_aside
from attnlab.data.vocabulary import Vocabulary
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.shortcuts import Records, Shortcut, sequence_scores

Words = Sequence[str]
S = TypeVar("S")
T = TypeVar("T")
SizedT = TypeVar("SizedT", bound=Sized)


ValidationBy = Literal["random", "length"]


class SequenceOptions(TypedDict, total=False):
    """Options that every sequence-to-sequence task hands on to `SequenceTask`, which describes them."""

    validation_share: Annotated[float, "[0, 1)"]
    validation_by: ValidationBy
    end_token: bool


class SequenceTask(Task):
    """Base class of tasks from one framed token sequence to another; a subclass gives `pairs`, or its own `prepare`.

    inputs, outputs: vocabularies of all splits, so that a model can be evaluated on any other split.
    longest:         longest input and output of all splits, without framing; None = of the prepared subsets.
    separator:       between the words of a text in Python (`load_run(...).predict`); empty = a word is a character.
    size_unit:       what `validation_by=length` counts, in words.

    Args:
        validation_share: share of the training examples that is set aside as `val`; 0 = none.
        validation_by: `random`: the share is drawn by `data_seed`; `length`: it is the largest sizes (output tokens
            for most tasks) that together are at most the share, so that training ends at a smaller size than `val` has,
            as it does before the tests of longer outputs. For choosing only: a chosen setting is trained on everything.
        end_token: false: no loss counts an end token and no output has one, and tests give the length (the -EOS models
            of Newman et al. 2020, "The EOS Decision and Length Extrapolation"); the metrics are the oracle's alone.
    """

    kind = "encoder_decoder"
    modality = "tokens"
    inputs: Vocabulary
    outputs: Vocabulary
    longest: tuple[int, int] | None = None
    separator: ClassVar[str] = " "
    size_unit: ClassVar[str] = "output tokens"
    data_seed: int = 0
    # for subclasses whose constructor takes none of these options
    validation_share: float = 0.0
    validation_by: ValidationBy = "random"
    end_token: bool = True

    def __init__(
        self,
        *,
        validation_share: Annotated[float, "[0, 1)"] = 0.0,
        validation_by: ValidationBy = "random",
        end_token: bool = True,
    ) -> None:
        self.validation_share, self.validation_by, self.end_token = validation_share, validation_by, end_token

    def pairs(self) -> Mapping[str, Sequence[tuple[Words, Words]]]:
        """Input and output of every example, by subset; the same at every call.

        Draw from `numpy.random.default_rng(self.data_seed)`, never from a global random state.
        """
        raise NotImplementedError(f"{type(self).__name__} gives no pairs")

    def prepare(self, folders: Folders) -> Prepared[SequencePairs]:
        framed = {name: self.framed(pairs, name) for name, pairs in declared(self, self.pairs()).items()}
        subsets, aside = self.with_validation(framed)
        return self.prepared(subsets, "; ".join(filter(None, [origin(self), aside])))

    def framed(self, pairs: Iterable[tuple[Words, Words]], subset: str = "pairs") -> SequencePairs:
        """The ids of pairs of words: start, input and end; output and end.

        Raises:
            DataError: a word is not in the vocabulary; names `subset` and the number of the pair.
        """
        start, end = self.inputs.start_id, self.inputs.end_id

        def row(pair: tuple[Words, Words]) -> tuple[list[int], list[int]]:
            source, out = pair
            return [start, *self.inputs.encode(source), end], [*self.outputs.encode(out), end]

        rows = each_example(pairs, row, subset)
        return SequencePairs.of([row[0] for row in rows], [row[1] for row in rows], self.inputs.pad_id)

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        source, out = self.inputs.decode(pairs.inputs[number]), self.outputs.decode(pairs.targets[number])
        return f"input   {self.separator.join(source)}\noutput  {self.separator.join(out)}"

    def token_names(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.inputs.words, self.outputs.words

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> Batch:
        """Inputs are texts."""
        start, end = self.inputs.start_id, self.inputs.end_id
        rows = encoded(inputs, TEXT, lambda text: [start, *self.inputs.encode(words_of(text, self.separator)), end])
        return sequence_batch(rows, self.inputs.pad_id, end)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[str]:
        return [self.separator.join(self.outputs.decode(ids)) for ids in outputs]

    def shortcuts(self, prepared: Prepared[SequencePairs]) -> Mapping[str, Shortcut]:
        """Also the words of the input that are outputs in training, in their order, if there are any."""
        ids = np.unique(prepared.subsets["train"].targets.values)
        copied = set(self.outputs.decode(ids[ids != self.outputs.end_id])) & set(self.inputs.words)
        copy = self.answered(lambda words: [word for word in words if word in copied])
        return {**super().shortcuts(prepared), **({"copying the input": copy} if copied else {})}

    def answered(self, answer: Callable[[list[str]], Words]) -> Shortcut:
        """The shortcut that answers the words of an input with other words."""

        def scores(pairs: SequencePairs) -> Records:
            numbers = range(len(pairs))
            # as lists: single numbers of a mapped array take long
            answers = [answer(self.inputs.decode(pairs.inputs[number].tolist())) for number in numbers]
            targets = (self.outputs.decode(pairs.targets[number].tolist()) for number in numbers)
            return sequence_scores(answers, targets)

        return scores

    def with_validation(
        self,
        subsets: Mapping[str, SequencePairs],
        stay: Callable[[], np.ndarray | None] = lambda: None,
        may_repeat: bool = True,
    ) -> tuple[Mapping[str, SequencePairs], str]:
        """The subsets with `val`, set aside from `train`, and a sentence about it; unchanged at a share of 0.

        Args:
            stay: returns a mask of training examples that stay there, which make the split what it is; None = none.
            may_repeat: whether training examples may be equal: no example of `val` is trained on, so what is drawn at
                random leaves them in training.
        """
        if not self.validation_share:
            return subsets, ""
        whole, mask = subsets["train"], stay()
        if self.validation_by == "length":
            train, val, cut = longest_aside(whole, self.validation_share, self.sizes(whole), mask)
            kept = "" if mask is None else ", but the ones that make the split what it is"
            how = f"all with more than {cut} {self.size_unit}{kept}"
        else:
            if may_repeat:
                mask = repeated(whole) if mask is None else mask | repeated(whole)
            train, val = set_aside(whole, self.validation_share, self.data_seed, mask)
            how = f"set aside with data_seed {self.data_seed}"
        tests = {name: part for name, part in subsets.items() if name != "train"}
        about = f"val is {len(val):,} of {len(whole):,} training examples, {how}"
        return {"train": train, "val": val, **tests}, about

    def sizes(self, pairs: SequencePairs) -> np.ndarray:
        """Size [n] of each example for `validation_by=length`, in `size_unit`.

        Raises:
            DataError: the examples have no size; says why.
        """
        return np.asarray(pairs.lengths)

    def prepared(self, subsets: Mapping[str, SequencePairs], about: str = "") -> Prepared[SequencePairs]:
        """The task with its TaskSpec and the longest target of each test subset as its decode limit.

        Raises:
            DataError: an empty output where outputs have no end token.
        """
        framed = (longest(pairs.inputs for pairs in subsets.values()), longest(p.targets for p in subsets.values()))
        spec = self.task_spec(
            input_vocabulary=len(self.inputs),
            output_vocabulary=len(self.outputs),
            pad_id=self.inputs.pad_id,
            end_id=self.inputs.end_id,
            end_token=self.end_token,
            never_targets=(*self.outputs.never_targets, *([] if self.end_token else [self.outputs.end_id])),
            max_input_length=self.longest[0] + 2 if self.longest else framed[0],
            max_output_length=self.longest[1] + 1 if self.longest else framed[1],
            metrics=SEQUENCE_METRICS if self.end_token else (ORACLE_END,),
        )
        if not self.end_token:
            # after the longest sequences are known: the network has the same size with and without end tokens
            subsets = {name: pairs.without_ends() for name, pairs in subsets.items()}
            about = "; ".join(filter(None, [about, "outputs have no end token: tests give the length"]))
        tests = {name: pairs for name, pairs in subsets.items() if name != "train"}
        limits = {name: int(pairs.targets.lengths.max()) for name, pairs in tests.items()}
        return Prepared(spec=spec, subsets=subsets, decode_limits=limits, about=about)


class ClassificationTask(Task):
    """Base class of tasks from a sequence of words to a class.

    inputs:    vocabulary of all splits.
    classes:   names of the classes.
    separator: as in `SequenceTask`.
    """

    kind = "classification"
    modality = "tokens"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    separator: ClassVar[str] = " "
    inputs: Vocabulary
    classes: Sequence[str]

    @abstractmethod
    def examples(self) -> Mapping[str, Sequence[tuple[Words, str]]]:
        """Words and class of every example, by subset; the same at every call (see `SequenceTask.pairs`)."""

    def prepare(self, folders: Folders) -> Prepared[LabelledSequences]:
        subsets = {name: self._labelled(name, rows) for name, rows in declared(self, self.examples()).items()}
        spec = self.task_spec(
            input_vocabulary=len(self.inputs),
            n_classes=len(self.classes),
            pad_id=self.inputs.pad_id,
            max_input_length=longest(part.inputs for part in subsets.values()),
            metrics=self.metrics,
        )
        return Prepared(spec=spec, subsets=subsets, about=origin(self))

    def _labelled(self, subset: str, rows: Sequence[tuple[Words, str]]) -> LabelledSequences:
        numbers = {name: number for number, name in enumerate(self.classes)}

        def ids(row: tuple[Words, str]) -> list[int]:
            words, name = row
            if name not in numbers:
                raise DataError(f"no class {name!r}; classes: {listed(self.classes, 8)}")
            if not words:
                raise DataError("no words; expected at least one")
            return self.inputs.encode(words)

        inputs = each_example(rows, ids, subset)
        answers = np.array([numbers[name] for _, name in rows], dtype=np.int64)
        return LabelledSequences(Ragged.of(inputs), answers, self.inputs.pad_id)

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        words, name = self.inputs.decode(part.inputs[number]), self.classes[part.answers[number]]
        return f"input  {self.separator.join(words)}\nclass  {name}"

    def token_names(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.inputs.words, self.classes

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LabelledBatch:
        """Inputs are texts."""
        rows = encoded(inputs, TEXT, lambda text: self.inputs.encode(words_of(text, self.separator)))
        return labelled_batch(rows, self.inputs.pad_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[int]) -> list[str]:
        return [self.classes[int(output)] for output in outputs]


def declared(task: Task, subsets: Mapping[str, SizedT]) -> Mapping[str, SizedT]:
    """The subsets that a task made, checked against those that its class declares.

    Raises:
        DataError: other names, or a subset without examples.
    """
    if set(subsets) != set(task.subsets):
        name = type(task).__name__
        raise DataError(f"{name} made the subsets {listed(subsets)} and declares subsets = {tuple(task.subsets)}")
    for name, examples in subsets.items():
        if not len(examples):
            raise DataError(f"{type(task).__name__}: the subset {name} has no example")
    return subsets


def each_example(examples: Iterable[S], encode: Callable[[S], T], subset: str) -> list[T]:
    """The result of `encode` for each example.

    Raises:
        DataError: from `encode`, with the subset and the number of the example.
    """
    results: list[T] = []
    try:
        for example in examples:
            results.append(encode(example))
    except DataError as error:
        raise DataError(f"{subset}, example {len(results)}: {error}") from None
    return results


def words_of(text: str, separator: str) -> Words:
    """The words of a text; its characters if the separator is empty."""
    return text.split(separator) if separator else text


def longest(tables: Iterable[Ragged]) -> int:
    """Length of the longest sequence of several tables."""
    return max(int(table.lengths.max()) for table in tables)


def origin(task: Task) -> str:
    """One sentence for results about data that a task makes itself."""
    return f"generated by {type(task).__module__}.{type(task).__name__}, version {task.version}"
