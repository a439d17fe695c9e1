"""Evaluation of a network on the subsets of a task, the same during training, after it, and in `evaluate.py`."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from attnlab.config.schema import Train
from attnlab.data.examples import Examples
from attnlab.learn.devices.process_group import ALONE, Ranks
from attnlab.learn.metrics import metric_functions, summarise_subset
from attnlab.learn.reporter import Reporter
from attnlab.nn.decoder_only import DecoderOnly
from attnlab.tasks.base import Prepared
from attnlab.tasks.kinds.base import kind_of

Scored = tuple[np.ndarray, dict[str, np.ndarray]]
"""rows of a batch among the evaluated examples, and their scores by name"""
MIXED = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def precision_context(precision: str, device: torch.device) -> AbstractContextManager:
    """Autocast of a training precision; nothing in full precision."""
    return torch.autocast(device.type, MIXED[precision]) if precision in MIXED else nullcontext()


@contextmanager
def evaluation_mode(network: nn.Module) -> Iterator[None]:
    """Evaluation mode; every module's mode is restored, which need not be the same as its parent's."""
    training = {module: module.training for module in network.modules()}
    network.eval()
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients."""
    with evaluation_mode(network), torch.inference_mode():
        yield


@dataclass
class Findings:
    """Metrics by full names, number of examples by part (`test/ood/length_30`), and shortcuts by metric and name."""

    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    shortcuts: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, prefix: str, metrics: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Add metrics and counts of a subset, with `prefix` before their names."""
        self.metrics |= {f"{prefix}/{name}": value for name, value in metrics.items()}
        self.counts |= {prefix if part == "all" else f"{prefix}/{part}": size for part, size in counts.items()}


class Evaluator:
    """Evaluator of a run: evaluates its network on subsets of its prepared task.

    Args:
        train: batch size of evaluation, precision, limit of batches.
        network: evaluated with its current weights.
        reporter: shows the progress of evaluations outside of training.
        ranks: processes that share the batches and find the same metrics: each evaluates every `world`-th one.
    """

    def __init__(
        self,
        train: Train,
        prepared: Prepared[Examples],
        network: nn.Module,
        reporter: Reporter,
        ranks: Ranks = ALONE,
    ) -> None:
        self.train, self.prepared, self.network, self.reporter = train, prepared, network, reporter
        self.ranks = ranks

    @property
    def metric(self) -> str:
        """The metric that validation selects by."""
        return self.prepared.spec.metrics[0]

    def subset(
        self, name: str, numbers: np.ndarray | None = None, limit: int | None = None, show: bool = False
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics and counts of one subset, or of some of its examples.

        Args:
            limit: limit of the output length, end token included (encoder_decoder only); None: as the task says.
            show: report progress.

        Returns:
            metrics without a prefix (`sequence_accuracy`, `length_30/sequence_accuracy`, `unary/accuracy`), and counts.
        """
        examples = self.prepared.subsets[name]
        numbers = self.chosen(name, numbers)
        if show:
            if self.train.eval_batches is not None and numbers is not None:
                cut = f"note: {len(numbers):,} of {len(examples):,} examples of {name}"
                self.reporter.say(f"{cut} are evaluated (train.eval_batches={self.train.eval_batches})")
            self.reporter.start(f"evaluating {name}", len(examples) if numbers is None else len(numbers))
        numbers = np.arange(len(examples)) if numbers is None else np.asarray(numbers)
        lengths = None if examples.lengths is None else np.asarray(examples.lengths)[numbers]
        limit = limit or self.prepared.decode_limits.get(name, 0)
        try:
            records = self._records(examples, numbers, lengths, limit, show)
        finally:
            if show:
                self.reporter.stop()
        return summarise_subset(records, metric_functions(self.prepared.spec), examples, numbers)

    def _records(
        self, examples: Examples, numbers: np.ndarray, lengths: np.ndarray | None, limit: int, show: bool
    ) -> dict[str, np.ndarray]:
        """Scores of examples by name; the size of batches affects them by rounding only."""
        order = np.arange(len(numbers)) if lengths is None else self._by_length(examples, numbers, lengths)
        device, size = next(self.network.parameters()).device, self.train.eval_batch_size
        ranks, measured, kind = self.ranks, list[Scored](), kind_of(self.prepared.spec)
        with evaluating(self.network), precision_context(self.train.precision, device):
            for start in range(ranks.rank * size, len(order), ranks.world * size):
                rows = order[start : start + size]
                batch = examples.batch(numbers[rows]).to(device)
                scores = kind.scores(self.network, batch, limit)
                measured.append((rows, {name: values.cpu().numpy() for name, values in scores.items()}))
                if show:
                    self.reporter.update(min(start + ranks.world * size, len(order)))
        records: dict[str, np.ndarray] = {}
        for rows, each in chain.from_iterable(ranks.gather(measured)):
            for name, values in each.items():
                records.setdefault(name, np.zeros(len(numbers), dtype=values.dtype))[rows] = values
        return records

    def _by_length(self, examples: Examples, numbers: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Rows sorted by length: batches need less padding, and fewer decoding steps."""
        extents = examples.extents()
        if isinstance(self.network, DecoderOnly) and extents is not None:
            # by input first: it decodes inputs of each length by themselves (mathematics, CPU: 1.6 times as fast)
            return np.lexsort((lengths, extents[numbers, 0]))
        return np.argsort(lengths, kind="stable")

    def chosen(self, name: str, numbers: np.ndarray | None) -> np.ndarray | None:
        """Numbers of the examples to evaluate: `numbers` (None: all), cut down to `train.eval_batches` batches."""
        n_examples = len(self.prepared.subsets[name]) if numbers is None else len(numbers)
        most = n_examples if self.train.eval_batches is None else self.train.eval_batches * self.train.eval_batch_size
        if most >= n_examples:
            return numbers
        # always the same ones; not the first ones, because files are often sorted by length or kind
        rows = np.sort(np.random.default_rng(0).permutation(n_examples)[:most])
        return rows if numbers is None else np.asarray(numbers)[rows]

    def debug(self) -> dict[str, Any]:
        """The entry of a result for evaluations cut down by `train.eval_batches`; empty for full evaluations."""
        batches = self.train.eval_batches
        if batches is None:
            return {}
        sizes = {name: len(examples) for name, examples in self.prepared.subsets.items() if name != "train"}
        return {"debug": {"eval_batches": batches, "sizes": sizes}}

    def try_longest(self) -> None:
        """Evaluate the longest example of every subset with longer sequences than the training data, before training: a
        network that cannot read it raises TooLong now, not at the test.
        """
        spec = self.prepared.spec
        longest = spec.max_output_length or spec.max_input_length
        # every process by itself
        alone = Evaluator(self.train, self.prepared, self.network, self.reporter)
        for name, examples in self.prepared.subsets.items():
            if examples.lengths is not None and examples.lengths.max(initial=0) > longest:
                alone.subset(name, np.array([np.argmax(examples.lengths)]))

    @property
    def tests(self) -> list[str]:
        return [name for name in self.prepared.subsets if name.split("/")[0] == "test"]

    def test_subsets(self, show: bool = False) -> Findings:
        """Metrics and counts of every test subset."""
        findings = Findings()
        for name in self.tests:
            findings.add(name, *self.subset(name, show=show))
        return findings
