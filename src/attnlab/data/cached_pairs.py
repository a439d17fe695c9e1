"""Pairs of a sequence-to-sequence task in the cache, subset by subset: framed ids, mapped into memory when read."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from attnlab.data.examples import SequencePairs
from attnlab.data.ragged_arrays import Ragged, RaggedWriter
from attnlab.data.vocabulary import Vocabulary


def write_pairs(
    folder: Path,
    subset: str,
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    inputs: Vocabulary,
    outputs: Vocabulary,
) -> None:
    """Writes the ids of pairs into a folder of the cache: start, input and end; output and end."""
    name = _file(subset)
    with (
        RaggedWriter(folder, f"{name}_inputs", len(inputs) - 1) as source_rows,
        RaggedWriter(folder, f"{name}_targets", len(outputs) - 1) as target_rows,
    ):
        for source, target in pairs:
            source_rows.append([inputs.start_id, *source, inputs.end_id])
            target_rows.append([*target, outputs.end_id])


def stored_pairs(
    arrays: Mapping[str, np.ndarray], subset: str, pad_id: int, length_bins: Sequence[int] | None = None
) -> SequencePairs:
    """The pairs that `write_pairs` wrote; `arrays` is the result of `load_arrays(folder)`."""
    inputs, targets = (Ragged.from_arrays(arrays, f"{_file(subset)}_{side}") for side in ("inputs", "targets"))
    return SequencePairs(inputs, targets, pad_id, length_bins=length_bins)


def _file(subset: str) -> str:
    return subset.replace("/", "_")
