"""Batches: what a task hands to training. Masks are boolean, True = keep, real positions first."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Num, UInt8
from torch import Tensor


def length_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B N"]:
    """True at the first `lengths[b]` of `size` places of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


def cuts(sizes: Sequence[Sequence[int]], max_tokens: int) -> list[tuple[int, int]]:
    """Where to cut examples of these sizes, so that a piece has at most `max_tokens` padded tokens.

    Args:
        sizes: lengths of the sequences of each example.

    Returns:
        first example and end of each piece; an example that is longer by itself is a piece by itself.
    """
    starts, longest = [0], [0] * len(sizes[0])
    for place, lengths in enumerate(sizes):
        longest = [max(pair) for pair in zip(longest, lengths, strict=True)]
        if place > starts[-1] and (place + 1 - starts[-1]) * sum(longest) > max_tokens:
            starts.append(place)
            longest = list(lengths)
    return list(zip(starts, [*starts[1:], len(sizes)], strict=True))


@dataclass(kw_only=True)
class Batch:
    """Examples of one training step or evaluation; `index` names each by its number in its subset.

    Not frozen: Lightning converts floating-point fields in place where the precision asks for it.
    """

    sequences: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """names of the padded tables [B, length] of each sequence of an example, in the order of `extents`"""

    index: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> Self:
        """The same batch with every tensor on `device`; itself where it is there."""
        if self.index.device == torch.device(device):
            return self
        return type(self)(**{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory (called by torch's DataLoader)."""
        return type(self)(**{f.name: getattr(self, f.name).pin_memory() for f in fields(self)})

    def __len__(self) -> int:
        return len(self.index)

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        """Lengths of the sequences of each example, one entry for each of its sequences; `pieces` counts them."""
        return (torch.ones_like(self.index),)

    @property
    def counts(self) -> Int[Tensor, " B"]:
        """What the loss is a mean over, of each example: pieces of a batch count by their sums."""
        return torch.ones_like(self.index)

    def select(self, rows: Int[Tensor, " K"] | Bool[Tensor, " B"]) -> Self:
        """Some examples of the batch, as they are padded."""
        return type(self)(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @property
    def widths(self) -> tuple[int, ...]:
        """Length that each sequence is padded to; known without waiting for the device."""
        return tuple(getattr(self, names[0]).shape[1] for names in self.sequences)

    def pieces(self, max_tokens: int | None) -> list[Self]:
        """The batch, or several of at most `max_tokens` padded tokens each (a longer example is a piece by itself).

        Examples of like size stay together, so that little is padded.
        """
        if max_tokens is None or (self.sequences and len(self) * sum(self.widths) <= max_tokens):
            return [self]
        extents = torch.stack(self.extents)
        if len(self) * int(extents.amax(1).sum()) <= max_tokens:
            return [self]
        order = extents.sum(0).argsort(stable=True)
        found = cuts(extents[:, order].T.tolist(), max_tokens)
        return [self.select(order[start:end]).trimmed() for start, end in found]

    def trimmed(self) -> Self:
        """Without the places that are padding in every example."""
        return self._resized([int(lengths.max()) for lengths in self.extents[: len(self.sequences)]], 0)

    def padded(self, sizes: Sequence[int], pad_id: int) -> Self:
        """Every sequence padded to the length at its place in `sizes`; what is padding counts nowhere.

        Args:
            sizes: a length for each entry of `sequences`, at least the present one.
            pad_id: fills the token tables.

        Raises:
            ValueError: a sequence would be cut.
        """
        if any(size < width for size, width in zip(sizes, self.widths, strict=True)):
            raise ValueError(f"sequences of lengths {self.widths} cannot be padded to {tuple(sizes)}")
        return self if tuple(sizes) == self.widths else self._resized(sizes, pad_id)

    def _resized(self, sizes: Sequence[int], pad_id: int) -> Self:
        """The tables of every sequence, cut or padded to its length; nothing is scored in what is new."""
        resized = {}
        for names, size in zip(self.sequences, sizes, strict=True):
            for name in names:
                table, more = getattr(self, name), size - getattr(self, name).shape[1]
                fill = False if table.dtype == torch.bool else pad_id
                resized[name] = F.pad(table, (0, more), value=fill) if more > 0 else table[:, :size]
        return replace(self, **resized)


@dataclass(kw_only=True)
class SequenceBatch(Batch):
    """Input and output token sequences, framing tokens included, padded to the longest of the batch.

    Inputs are framed start + tokens + end; targets are tokens + end, and what the decoder reads is the target
    shifted right by one with the end token in front.
    """

    sequences = (("inputs",), ("targets",))

    inputs: Int[Tensor, "B S"]
    input_lengths: Int[Tensor, " B"]
    targets: Int[Tensor, "B T"]
    target_lengths: Int[Tensor, " B"]

    @property
    def input_mask(self) -> Bool[Tensor, "B S"]:
        return length_mask(self.input_lengths, self.inputs.shape[1])

    @property
    def target_mask(self) -> Bool[Tensor, "B T"]:
        return length_mask(self.target_lengths, self.targets.shape[1])

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        return self.input_lengths, self.target_lengths

    @property
    def counts(self) -> Int[Tensor, " B"]:
        return self.target_lengths


@dataclass(kw_only=True)
class ImageQuestionBatch(Batch):
    """Images (red, green, blue), a question vector about each, the right class, and the question's group.

    A group is given by its place in the subset's `groups` (attnlab.data.examples).
    """

    images: UInt8[Tensor, "B height width channels"]
    questions: UInt8[Tensor, "B question"]
    answers: Int[Tensor, " B"]
    groups: Int[Tensor, " B"]


@dataclass(kw_only=True)
class LabelledBatch(Batch):
    """Token sequences padded to the longest of the batch, and the right class (for a regression: number) of each."""

    sequences = (("inputs",),)

    inputs: Int[Tensor, "B S"]
    input_lengths: Int[Tensor, " B"]
    answers: Num[Tensor, " B"]

    @property
    def input_mask(self) -> Bool[Tensor, "B S"]:
        return length_mask(self.input_lengths, self.inputs.shape[1])

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        return (self.input_lengths,)


@dataclass(kw_only=True)
class LabelledPairBatch(LabelledBatch):
    """Pairs of token sequences, each side padded to its longest, and the right class of each pair."""

    sequences = (("inputs",), ("others",))

    others: Int[Tensor, "B T"]
    other_lengths: Int[Tensor, " B"]

    @property
    def other_mask(self) -> Bool[Tensor, "B T"]:
        return length_mask(self.other_lengths, self.others.shape[1])

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        return self.input_lengths, self.other_lengths


@dataclass(kw_only=True)
class LanguageBatch(Batch):
    """Token sequences for a language model, padded to the longest of the batch.

    inputs:  what is read; place n stands before (causal) or under (masked) the token of place n of `targets`.
    targets: the right token of each place.
    scored:  which places the loss and the metrics count; none of them is padding.
    words:   how many words of running text the scored places of each sequence spell.
    """

    sequences = (("inputs", "targets", "scored"),)

    inputs: Int[Tensor, "B N"]
    lengths: Int[Tensor, " B"]
    targets: Int[Tensor, "B N"]
    scored: Bool[Tensor, "B N"]
    words: Int[Tensor, " B"]

    @property
    def mask(self) -> Bool[Tensor, "B N"]:
        return length_mask(self.lengths, self.inputs.shape[1])

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        return (self.lengths,)

    @property
    def counts(self) -> Int[Tensor, " B"]:
        return self.scored.sum(1)
