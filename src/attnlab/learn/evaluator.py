"""The evaluator of a run: metrics of its network on the subsets of its task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from attnlab.config.schema import Train
from attnlab.learn.evaluate import evaluate
from attnlab.learn.training_progress import Reporter
from attnlab.tasks.base import Prepared


@dataclass
class Findings:
    """Metrics with their full names, and how many examples stand behind each part (`test/ood/length_30`)."""

    metrics: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, prefix: str, metrics: Mapping[str, float], counts: Mapping[str, int]) -> None:
        self.metrics |= {f"{prefix}/{name}": value for name, value in metrics.items()}
        self.counts |= {prefix if part == "all" else f"{prefix}/{part}": size for part, size in counts.items()}


class Evaluator:
    """Evaluates subsets of a prepared task.

    Args:
        train: batch size of evaluation, precision, selection rules.
        network: evaluated with the weights that it has.
        reporter: shows progress while an evaluation that is not part of training runs.
    """

    def __init__(self, train: Train, prepared: Prepared, network: nn.Module, reporter: Reporter) -> None:
        self.train, self.prepared, self.network, self.reporter = train, prepared, network, reporter

    @property
    def metric(self) -> str:
        """What validation selects by."""
        return self.prepared.spec.metrics[0]

    def subset(
        self, name: str, numbers: np.ndarray | None = None, limit: int | None = None, show: bool = False
    ) -> tuple[dict[str, float], dict[str, int]]:
        """Metrics and counts of one subset, or of some of its examples."""
        examples = self.prepared.subsets[name]
        numbers = self.chosen(name, numbers)
        if show:
            if self.train.eval_batches is not None and numbers is not None:
                cut = f"note: {len(numbers)} of {len(examples)} examples of {name}"
                self.reporter.say(f"{cut} are evaluated (train.eval_batches={self.train.eval_batches})")
            self.reporter.start(f"evaluating {name}", len(examples) if numbers is None else len(numbers))
        try:
            return evaluate(
                self.network,
                self.prepared.spec,
                examples,
                batch_size=self.train.eval_batch_size,
                precision=self.train.precision,
                decode_limit=limit or self.prepared.decode_limits.get(name, 0),
                numbers=numbers,
                tick=(lambda done, size: self.reporter.update(done)) if show else (lambda done, size: None),
            )
        finally:
            if show:
                self.reporter.stop()

    def chosen(self, name: str, numbers: np.ndarray | None) -> np.ndarray | None:
        """The examples of a subset that are evaluated: all, or those asked for, or some, by `train.eval_batches`."""
        asked = len(self.prepared.subsets[name]) if numbers is None else len(numbers)
        most = asked if self.train.eval_batches is None else self.train.eval_batches * self.train.eval_batch_size
        if most >= asked:
            return numbers
        # always the same ones; not the first ones, since files are often in order of length or kind
        places = np.sort(np.random.default_rng(0).permutation(asked)[:most])
        return places if numbers is None else np.asarray(numbers)[places]

    def debug(self) -> dict[str, Any]:
        """What a result says of evaluations that were cut short by `train.eval_batches`; empty where they are whole."""
        if (batches := self.train.eval_batches) is None:
            return {}
        sizes = {name: len(examples) for name, examples in self.prepared.subsets.items() if name != "train"}
        return {"debug": {"eval_batches": batches, "sizes": sizes}}

    def try_longest(self) -> None:
        """Take the longest example of every subset that has longer ones than the network was made for.

        Raises:
            TooLong: the network cannot; better known before training than at the test after it.
        """
        spec = self.prepared.spec
        longest = spec.max_output_length or spec.max_input_length
        for name, examples in self.prepared.subsets.items():
            if examples.lengths is not None and examples.lengths.max(initial=0) > longest:
                self.subset(name, np.array([np.argmax(examples.lengths)]))

    def test_subsets(self, show: bool = False) -> Findings:
        """Every test subset with the network as it is."""
        found = Findings()
        for name in self.prepared.subsets:
            if name.split("/")[0] == "test":
                found.add(name, *self.subset(name, show=show))
        return found
