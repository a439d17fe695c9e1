"""Options of the six tasks of MAD: published baselines, and what fits together."""

from collections.abc import Mapping
from typing import Any, Literal

from attnlab.config.message_text import listed
from attnlab.data.files.fetch import DataError

Name = Literal[
    "in_context_recall",
    "noisy_in_context_recall",
    "fuzzy_in_context_recall",
    "memorization",
    "compression",
    "selective_copying",
]
_RECALL = {"vocabulary": 16, "length": 128, "train_examples": 12800}
BASELINES: Mapping[Name, Mapping[str, int | float]] = {
    "in_context_recall": _RECALL,
    "noisy_in_context_recall": {**_RECALL, "vocabulary": 32, "noise_share": 0.2, "noise_vocabulary": 16},
    "fuzzy_in_context_recall": {**_RECALL, "key_motif": 3, "value_motif": 3},
    "memorization": {"vocabulary": 256, "length": 32, "train_examples": 256},
    "compression": {"vocabulary": 16, "length": 32, "train_examples": 12800},
    "selective_copying": {"vocabulary": 16, "length": 256, "train_examples": 12800, "tokens_to_copy": 16},
}
"""the options that each task reads, at its published baseline"""


def split(vocabulary: int) -> tuple[int, int]:
    """Number of keys, the first numbers, and number of keys and values together."""
    return vocabulary // 2, vocabulary


def key_and_value_numbers(dataset: str, options: Mapping[str, Any]) -> tuple[int, int]:
    """Of a recall task: numbers below the first are in keys, other numbers below the second in values."""
    special = int(dataset == "fuzzy_in_context_recall")
    return split(options["vocabulary"] - options.get("noise_vocabulary", 0) - special)


def require_possible(dataset: Name, changes: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Checks options against the task and each other.

    Args:
        changes: options that differ from the baseline.
        options: all that the task reads.

    Raises:
        DataError: an option that the task does not read, or a combination that no sequence has.
    """
    for name, value in changes.items():
        if name not in BASELINES[dataset]:
            readers = listed([task for task, read in BASELINES.items() if name in read])
            raise DataError(f"task.{name}={value}: task.dataset={dataset} does not read it, {readers} does; write null")
    length = options["length"]
    if length % 2 and dataset in ("in_context_recall", "noisy_in_context_recall", "memorization"):
        raise DataError(f"task.length: {length} is odd; expected even numbers, such as {length + 1}")
    if "tokens_to_copy" in options:
        _require(length, "length", 2 * options["tokens_to_copy"] + 2, "tokens_to_copy", options)
    if "noise_vocabulary" in options:
        _require(options["vocabulary"], "vocabulary", options["noise_vocabulary"] + 2, "noise_vocabulary", options)
    if "key_motif" in options:
        _require(length, "length", 2 * (options["key_motif"] + options["value_motif"]) + 1, "key_motif", options)
        # half of the numbers are in keys, one pads
        for name, more in (("key_motif", 1), ("value_motif", 0)):
            _require(options["vocabulary"], "vocabulary", 2 * options[name] + more, name, options)
            # a motif and its row are one number of 63 bits
            if (options["vocabulary"] + 1) ** options[name] >= 2**50:
                raise DataError(f"task.{name}={options[name]}: too long for task.vocabulary={options['vocabulary']}")


def _require(has: int, name: str, needs: int, because: str, options: Mapping[str, Any]) -> None:
    if has < needs:
        raise DataError(f"task.{name}: {has} is too small for task.{because}={options[because]}; at least {needs}")
