"""Batches: what a task hands to training. Masks are boolean, True = keep, real positions first."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Self

import numpy as np
import torch
from jaxtyping import Bool, Int, UInt8
from torch import Tensor


def length_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B N"]:
    """True at the first `lengths[b]` of `size` places of row b."""
    return torch.arange(size, device=lengths.device) < lengths[:, None]


@dataclass(kw_only=True)
class Batch:
    """Examples of one training step or evaluation; `index` names each by its number in its subset.

    Not frozen: Lightning converts floating-point fields in place where the precision asks for it.
    """

    index: Int[Tensor, " B"]

    def to(self, device: torch.device | str) -> Self:
        """The same batch with every tensor on `device`."""
        return type(self)(**{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})

    def pin_memory(self) -> Self:
        """The same batch in page-locked memory (called by torch's DataLoader)."""
        return type(self)(**{f.name: getattr(self, f.name).pin_memory() for f in fields(self)})

    def __len__(self) -> int:
        return len(self.index)


@dataclass(kw_only=True)
class SequenceBatch(Batch):
    """Input and output token sequences, framing tokens included, padded to the longest of the batch.

    Inputs are framed start + tokens + end; targets are tokens + end, and what the decoder reads is the target
    shifted right by one with the end token in front.
    """

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


@dataclass(kw_only=True)
class ImageQuestionBatch(Batch):
    """Images (red, green, blue), a question vector about each, the right class, and the question's group.

    A group is given by its place in the subset's `groups` (attnlab.data.examples).
    """

    images: UInt8[Tensor, "B height width channels"]
    questions: UInt8[Tensor, "B question"]
    answers: Int[Tensor, " B"]
    groups: Int[Tensor, " B"]


def pad_sequences(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Sequences of token ids as one table.

    Returns:
        tokens [n, longest] (int16 when ids fit, else int32) filled up with `pad_id`, and lengths [n] (int32).
    """
    lengths = np.fromiter((len(s) for s in sequences), dtype=np.int32, count=len(sequences))
    tokens = np.fromiter(chain.from_iterable(sequences), dtype=np.int64, count=int(lengths.sum()))
    dtype = np.int16 if tokens.max(initial=pad_id) < 2**15 else np.int32
    table = np.full((len(sequences), lengths.max(initial=0)), pad_id, dtype=dtype)
    table[np.arange(table.shape[1]) < lengths[:, None]] = tokens
    return torch.from_numpy(table), torch.from_numpy(lengths)
