"""Tagging: a target, or none, for every position of a sequence; the network sees the whole sequence, or only the past.

One example of a task of this kind, whether the number of ones so far is odd, without a target at the first position:

    input   1 0 1 1
    target  _ odd even odd
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from attnlab.config.message_text import listed
from attnlab.data.batch import LanguageBatch, length_mask
from attnlab.data.examples import SequenceExamples, digest
from attnlab.data.files.fetch import DataError, Folders
from attnlab.data.ragged_arrays import Ragged, gather_rows
from attnlab.data.user_inputs import TEXT, encoded, language_batch
from attnlab.data.vocabulary import Vocabulary
from attnlab.nn.embedding import TokenEmbedding
from attnlab.nn.language_model import LanguageModel
from attnlab.nn.layer_stack import LayerStack, mean_penalty
from attnlab.nn.network_parts import NetworkParts
from attnlab.nn.output_head import Network, Output
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.kinds.base import Metric
from attnlab.tasks.kinds.language_model import LanguageModelKind, tokens_at
from attnlab.tasks.shortcuts import Records, Shortcut
from attnlab.tasks.word_tasks import Words, declared, each_example, longest, origin, words_of

NONE = 0
"""stands in the stored targets where there is none; target t is t + 1"""
PLACES = 64
"""places of a target among the targets of its sequence that a shortcut tells apart, relative to their number"""
SAMPLE = 20_000
"""training sequences in which it counts, spread over all"""


class Tagger(Network):
    """Bidirectional network with an output for every position."""

    def __init__(self, embedding: TokenEmbedding, encoder: LayerStack, output: Output) -> None:
        super().__init__()
        self.embedding, self.encoder, self.output = embedding, encoder, output

    def forward(
        self, tokens: Int[Tensor, "B N"], mask: Bool[Tensor, "B N"]
    ) -> tuple[Float[Tensor, "B N E"], Float[Tensor, ""]]:
        """Hidden states, which `output` maps to logits, and the mean unweighted penalty."""
        x, penalties = self.encoder(self.embedding(tokens), mask, False)
        return x, mean_penalty(penalties, x)


def mean_accuracy_over_lengths(records: Records) -> float:
    """Mean over the lengths of the accuracy at each, so that every length counts alike (Deletang et al. 2023)."""
    _, length = np.unique(records["length"], return_inverse=True)
    right, tokens = (np.bincount(length, weights=records[name]) for name in ("right", "tokens"))
    return float(np.mean(right / tokens))


class TaggingKind(LanguageModelKind):
    """A target or none for every position: loss and accuracy over the positions with a target, and the share of
    sequences with every target right (`sequence_accuracy`)."""

    needs: ClassVar = {"encoder": ["bidirectional"]}
    reads = ()
    metrics: ClassVar[Mapping[str, Metric]] = {"mean_accuracy_over_lengths": mean_accuracy_over_lengths}

    @classmethod
    def needs_of(
        cls, task: type, options: Mapping[str, Any], backbone: Mapping[str, Any]
    ) -> Mapping[str, Sequence[str]]:
        """Causal attention where the task has an option or an attribute `causal` that is true."""
        causal = options.get("causal", getattr(task, "causal", False))
        return {"decoder": ["causal"]} if causal else cls.needs

    def network(self, parts: NetworkParts) -> Network:
        size = self.spec.max_input_length
        embedding = parts.embedding(self.spec.input_vocabulary, size)
        if self.spec.causal:
            return LanguageModel(embedding, parts.lone_decoder(size), parts.output())
        return Tagger(embedding, parts.stack("encoder", size), parts.output())

    def scores(self, network: Any, batch: LanguageBatch, limit: int = 0) -> dict[str, Tensor]:
        """Also the number of positions."""
        return {**super().scores(network, batch, limit), "length": batch.lengths}

    def predict(self, network: Any, batch: LanguageBatch, lengths: Sequence[int] | None = None) -> list[Any]:
        """The most likely target of every real position."""
        return tokens_at(network, batch, batch.mask)


@dataclass(eq=False, repr=False)
class TaggedSequences(SequenceExamples):
    """Token sequences with a target for every token, or none.

    Args:
        inputs, targets: of the same lengths; targets are 1 larger, and `NONE` where there is none.
        pad_id, groups, length_bins: as in `Examples`.
    """

    held = ("inputs", "targets")

    inputs: Ragged
    targets: Ragged
    pad_id: int
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    length_bins: Sequence[int] | None = None

    def __post_init__(self) -> None:
        self.lengths = self.inputs.lengths

    def extents(self) -> np.ndarray:
        return self.inputs.lengths[:, None]

    def identities(self) -> list[bytes]:
        """Of the inputs alone: a test may score fewer positions than training."""
        return [digest(self.inputs[number]) for number in range(len(self))]

    def batch(self, numbers: np.ndarray) -> LanguageBatch:
        index, *rows = gather_rows(numbers, self.pad_id, self.stored("inputs"), self.stored("targets"))
        (inputs, lengths), (targets, _) = rows
        scored = (targets != NONE) & length_mask(lengths, inputs.shape[1])
        none = torch.zeros_like(index)
        return LanguageBatch(
            index=index, inputs=inputs, lengths=lengths, targets=(targets - 1).clamp(min=0), scored=scored, words=none
        )


class TaggingTask(Task):
    """Base class of tasks that give every word of a sequence a tag, or none; a subclass gives `examples`, or its own
    `prepare`.

    inputs:    vocabulary of all splits.
    tags:      names of the tags.
    first_tag: number of tags before the first that is a target; they are special.
    causal:    whether a position sees only itself and what comes before it; an option of this name may say so.
    metrics:   of the TaskSpec.
    separator: as in `SequenceTask`.
    """

    kind = "tagging"
    modality = "tokens"
    separator: ClassVar[str] = " "
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "sequence_accuracy")
    inputs: Vocabulary
    tags: Sequence[str]
    first_tag: int = 0
    causal: bool = False

    def examples(self) -> Mapping[str, Sequence[tuple[Words, Sequence[str | None]]]]:
        """Words and tags (None: no target) of every example, by subset; the same at every call."""
        raise NotImplementedError(f"{type(self).__name__} gives no examples")

    def prepare(self, folders: Folders) -> Prepared[TaggedSequences]:
        subsets = {name: self._tagged(name, rows) for name, rows in declared(self, self.examples()).items()}
        return self.prepared(subsets, origin(self))

    def prepared(self, subsets: Mapping[str, TaggedSequences], about: str) -> Prepared[TaggedSequences]:
        """The task with its TaskSpec."""
        spec = self.task_spec(
            input_vocabulary=len(self.inputs),
            output_vocabulary=len(self.tags),
            pad_id=self.inputs.pad_id,
            never_targets=tuple(range(self.first_tag)),
            causal=self.causal,
            max_input_length=longest(part.inputs for part in subsets.values()),
            metrics=self.metrics,
        )
        return Prepared(spec=spec, subsets=subsets, about=about)

    def _tagged(self, subset: str, rows: Sequence[tuple[Words, Sequence[str | None]]]) -> TaggedSequences:
        numbers = {None: NONE} | {name: number for number, name in enumerate(self.tags, start=1)}

        def ids(row: tuple[Words, Sequence[str | None]]) -> tuple[list[int], list[int]]:
            words, tags = row
            if len(words) != len(tags) or not any(tag is not None for tag in tags):
                raise DataError(
                    f"{len(words)} words with {len(tags)} tags; expected a tag or None for each, not all None"
                )
            if unknown := [tag for tag in tags if tag not in numbers]:
                raise DataError(f"no tag {unknown[0]!r}; tags: {listed(self.tags, 8)}")
            return self.inputs.encode(words), [numbers[tag] for tag in tags]

        examples = each_example(rows, ids, subset)
        inputs, targets = zip(*examples, strict=True)
        return TaggedSequences(Ragged.of(inputs), Ragged.of(targets), self.inputs.pad_id)

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        part = prepared.subsets[subset]
        words = self.inputs.decode(part.inputs[number])
        tags = ["_" if tag == NONE else self.tags[tag - 1] for tag in part.targets[number]]
        return f"input   {self.separator.join(words)}\ntarget  {' '.join(tags)}"

    def token_names(self) -> tuple[Sequence[str], Sequence[str]]:
        return self.inputs.words, self.tags

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str]) -> LanguageBatch:
        """Inputs are texts."""
        rows = encoded(inputs, TEXT, lambda text: self.inputs.encode(words_of(text, self.separator)))
        return language_batch(rows, self.inputs.pad_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[Sequence[int]]) -> list[Any]:
        """The tag of every word."""
        return [[self.tags[tag] for tag in row] for row in outputs]

    def shortcuts(self, prepared: Prepared[TaggedSequences]) -> Mapping[str, Shortcut]:
        """The most frequent tag of all targets, and of the targets at the same place of their sequences."""
        targets = prepared.subsets["train"].targets
        frequent = always(int(np.bincount(targets.values)[1:].argmax()) + 1)
        numbers = np.linspace(0, len(targets) - 1, min(len(targets), SAMPLE)).astype(int)
        by_place = most_frequent_by_place(targets.rows(numbers), len(self.tags))
        return {"most frequent tag": frequent, "most frequent tag at its place": by_place}


def always(answer: int) -> Shortcut:
    """The shortcut that gives every position the same stored target."""
    return lambda part: tag_scores(np.full(len(part.targets.values), answer), part)


def most_frequent_by_place(targets: Ragged, tags: int) -> Shortcut:
    """The shortcut that knows the place of a target among the targets of its sequence, and their number."""

    def places(targets: Ragged) -> np.ndarray:
        before, total = targets_before(targets)
        return (PLACES * (2 * before + 1) // np.maximum(2 * total, 1)).clip(max=PLACES - 1)

    scored = targets.values != NONE
    codes = places(targets)[scored] * tags + targets.values[scored] - 1
    counts = np.bincount(codes, minlength=PLACES * tags).reshape(PLACES, tags)
    counted = np.flatnonzero(counts.any(axis=1))
    nearest = counted[np.abs(counted - np.arange(PLACES)[:, None]).argmin(axis=1)]
    best = counts.argmax(axis=1)[nearest] + 1
    return lambda part: tag_scores(best[places(part.targets)], part)


def targets_before(targets: Ragged) -> tuple[Int[np.ndarray, " tokens"], Int[np.ndarray, " tokens"]]:
    """For every position the number of targets before it in its sequence, and of all targets of the sequence."""
    # half the memory of numpy's default
    before = np.concatenate(([0], (targets.values != NONE).cumsum(dtype=np.int32)), dtype=np.int32)
    first, stop = (np.repeat(before[edges], targets.lengths) for edges in (targets.offsets[:-1], targets.offsets[1:]))
    return before[:-1] - first, stop - first


def tag_scores(answers: Int[np.ndarray, " tokens"], part: TaggedSequences) -> Records:
    """Scores of an answer to every position of a subset; answers are stored targets."""
    starts, tags = part.targets.offsets[:-1], part.targets.values
    chosen = (tags == answers) & (tags != NONE), tags != NONE
    right, tokens = (np.add.reduceat(each.astype(int), starts) for each in chosen)
    length = part.inputs.lengths
    return {"right": right, "tokens": tokens, "sequence_accuracy": right == tokens, "length": length}
