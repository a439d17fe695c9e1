"""Batches of examples, as a task gives them to training.

Padding masks are boolean: True = a real position, and the real positions come first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Num, UInt8
from torch import Tensor

from attnlab.data.batch_cutting import rows_of_pieces
from attnlab.data.batch_gathering import index_tensors


def length_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B N"]:
    """Padding mask: True at the first `lengths[b]` of `size` positions of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@dataclass(kw_only=True)
class Batch:
    """Examples of one training step or evaluation; `index` holds their numbers in the subset.

    Not frozen, because Lightning converts floating-point fields in place under some precisions.
    """

    sequences: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """for each sequence of an example the field of its lengths, and the fields of its padded tables [B, length]"""

    index: Int[Tensor, " B"]
    host_extents: Int[np.ndarray, "B sequences"] | None = None
    """`extents` on the host, where the training stream knows them: reading them from a GPU would wait for it"""

    counted: bool = True
    """False in a process that has no example of a batch, and takes its first one with a weight of 0"""

    def tensors(self) -> dict[str, Any]:
        """The fields that are tensors, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("host_extents", "counted")}

    def to(self, device: torch.device | str) -> Self:
        """The batch with every tensor on `device`; the batch itself if it is there already."""
        if self.index.device == torch.device(device):
            return self
        return replace(self, **{name: x.to(device, non_blocking=True) for name, x in self.tensors().items()})

    def pin_memory(self) -> Self:
        """The batch in page-locked memory (called by torch's DataLoader)."""
        return replace(self, **{name: tensor.pin_memory() for name, tensor in self.tensors().items()})

    def __len__(self) -> int:
        return len(self.index)

    @property
    def extents(self) -> tuple[Int[Tensor, " B"], ...]:
        """Lengths of the sequences of each example: one tensor per sequence, used by `pieces`."""
        return tuple(getattr(self, name) for name in self.sequences) or (torch.ones_like(self.index),)

    @property
    def counts(self) -> Int[Tensor, " B"]:
        """Number of terms of each example in the mean of the loss; pieces of a batch are weighted by their sums."""
        return torch.ones_like(self.index)

    def select(self, rows: Int[Tensor, " K"] | Bool[Tensor, " B"]) -> Self:
        """Some examples of the batch, with the same padding."""
        return type(self)(**{name: tensor[rows] for name, tensor in self.tensors().items()})

    def known_extents(self) -> Int[np.ndarray, "B sequences"]:
        """`extents` on the host; waits for the device only if `host_extents` is None."""
        if self.host_extents is not None:
            return self.host_extents
        return torch.stack(self.extents, 1).cpu().numpy() if self.sequences else np.ones((len(self), 1), np.int64)

    @property
    def widths(self) -> tuple[int, ...]:
        """Padded length of each sequence; known without waiting for the device."""
        return tuple(getattr(self, names[0]).shape[1] for names in self.sequences.values())

    def pieces(self, max_tokens: int | None, parts: int = 1) -> list[Self]:
        """The batch, or pieces of at most `max_tokens` padded tokens each (a longer example is a piece by itself).

        A piece has at most a `parts`-th of the examples.
        Examples of similar size share a piece, so that padding is small.
        """
        is_small = max_tokens is None or (self.sequences and len(self) * sum(self.widths) <= max_tokens)
        if parts == 1 and is_small:
            return [self]
        extents = self.known_extents()
        each = rows_of_pieces(extents, max_tokens, parts)
        if len(each) == 1:
            return [self]
        # one copy to the device for all pieces
        [rows] = index_tensors(self.index, np.concatenate(each))
        moved = zip(each, rows.split(list(map(len, each))), strict=True)
        return [replace(self.select(device_rows), host_extents=extents[part]).trimmed() for part, device_rows in moved]

    def trimmed(self) -> Self:
        """The batch without the positions that are padding in every example."""
        return self._resized(self.known_extents().max(0).tolist()[: len(self.sequences)], 0)

    def padded(self, sizes: Sequence[int], pad_id: int) -> Self:
        """The batch with every sequence padded to its length in `sizes`; no loss or metric counts the padding.

        Args:
            sizes: a length for each entry of `sequences`, at least the current one.
            pad_id: fills the token tables.

        Raises:
            ValueError: a sequence would be cut.
        """
        if any(size < width for size, width in zip(sizes, self.widths, strict=True)):
            raise ValueError(f"sequences of lengths {self.widths} cannot be padded to {tuple(sizes)}")
        return self if tuple(sizes) == self.widths else self._resized(sizes, pad_id)

    def _resized(self, sizes: Sequence[int], pad_id: int) -> Self:
        """The batch with the tables of every sequence cut or padded; new positions are not scored."""
        resized: dict[str, Any] = {}
        for names, size in zip(self.sequences.values(), sizes, strict=True):
            for name in names:
                table, more = getattr(self, name), size - getattr(self, name).shape[1]
                fill = False if table.dtype == torch.bool else pad_id
                resized[name] = F.pad(table, (0, more), value=fill) if more > 0 else table[:, :size]
        return replace(self, **resized)


@dataclass(kw_only=True)
class InputBatch(Batch):
    """Input token sequences, padded to the longest of the batch."""

    sequences: ClassVar = {"input_lengths": ("inputs",)}

    inputs: Int[Tensor, "B S"]
    input_lengths: Int[Tensor, " B"]

    @property
    def input_mask(self) -> Bool[Tensor, "B S"]:
        """Padding mask of the inputs."""
        return length_mask(self.input_lengths, self.inputs.shape[1])


@dataclass(kw_only=True)
class SequenceBatch(InputBatch):
    """Input and output token sequences with framing tokens, padded to the longest of the batch.

    Inputs are start + tokens + end; targets are tokens + end, or tokens alone (`TaskSpec.end_token`). The decoder reads
    the target shifted right by one, with the end token in front.
    """

    sequences: ClassVar = {"input_lengths": ("inputs",), "target_lengths": ("targets",)}

    targets: Int[Tensor, "B T"]
    target_lengths: Int[Tensor, " B"]

    @property
    def target_mask(self) -> Bool[Tensor, "B T"]:
        """Padding mask of the targets."""
        return length_mask(self.target_lengths, self.targets.shape[1])

    @property
    def counts(self) -> Int[Tensor, " B"]:
        return self.target_lengths


Pictures: TypeAlias = UInt8[Tensor, "B height width channels"] | Float[Tensor, "B height width channels"]
"""bytes, which a network divides by 255, or numbers that it takes as they are"""


@dataclass(kw_only=True)
class ImageQuestionBatch(Batch):
    """Images (red, green, blue), a question vector for each, the correct class, and the group of the question.

    A group is its number in the order of the subset's `groups` (attnlab.data.examples).
    """

    images: Pictures
    questions: UInt8[Tensor, "B question"]
    answers: Int[Tensor, " B"]
    groups: Int[Tensor, " B"]


@dataclass(kw_only=True)
class LabelledBatch(InputBatch):
    """Token sequences padded to the longest of the batch, and the correct class (or number) of each."""

    answers: Num[Tensor, " B"]


@dataclass(kw_only=True)
class LabelledPairBatch(LabelledBatch):
    """Pairs of token sequences, each side padded to its longest, and the correct class of each pair."""

    sequences: ClassVar = {"input_lengths": ("inputs",), "other_lengths": ("others",)}

    others: Int[Tensor, "B T"]
    other_lengths: Int[Tensor, " B"]

    @property
    def other_mask(self) -> Bool[Tensor, "B T"]:
        """Padding mask of the second sequences."""
        return length_mask(self.other_lengths, self.others.shape[1])


@dataclass(kw_only=True)
class LanguageBatch(Batch):
    """Token sequences for a language model, padded to the longest of the batch.

    inputs:  input tokens; position n holds the token before (causal) or in place of (masked) `targets[n]`.
    targets: the correct token of each position.
    scored:  positions that count in the loss and the metrics; none of them is padding.
    words:   number of words of running text in the scored positions of each sequence.
    """

    sequences: ClassVar = {"lengths": ("inputs", "targets", "scored")}

    inputs: Int[Tensor, "B N"]
    lengths: Int[Tensor, " B"]
    targets: Int[Tensor, "B N"]
    scored: Bool[Tensor, "B N"]
    words: Int[Tensor, " B"]

    @property
    def mask(self) -> Bool[Tensor, "B N"]:
        """Padding mask."""
        return length_mask(self.lengths, self.inputs.shape[1])

    @property
    def counts(self) -> Int[Tensor, " B"]:
        return self.scored.sum(1)
