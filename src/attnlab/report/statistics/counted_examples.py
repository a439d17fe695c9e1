"""Numbers of test examples behind an accuracy, from the `counts` of result.json."""

from collections.abc import Mapping

from attnlab.config.named_classes import kind_path
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.report.runs.read_runs import FoundRun, declared_by

TOKENS = "accuracy"
"""counts tokens in a language model, else examples"""
MOST = 10**12
"""of anything counted; larger numbers are damage"""


def is_share(metric: str) -> bool:
    """Whether a metric is the share of right answers in a test set; F1 and correlations are not."""
    return metric.startswith("test") and metric.rpartition("/")[2] in (TOKENS, *SEQUENCE_METRICS)


def examples_of(metric: str, run: FoundRun) -> int | None:
    """The number of answers that a share is over: test examples, or tokens; None where the result lacks it."""
    part, _, name = metric.rpartition("/")
    counts = run.result.get("counts", {})
    kind = declared_by(run.config["task"].get("_target_", ""), "kind")
    of_tokens = name == TOKENS and declared_by(kind_path(kind or ""), "counts_tokens")
    found = counts.get(f"{part}/tokens" if of_tokens else part) if isinstance(counts, Mapping) else None
    return found if isinstance(found, int) and 0 < found <= MOST else None
