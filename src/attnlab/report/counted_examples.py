"""Numbers of test examples behind an accuracy, from the `counts` of result.json."""

from collections.abc import Mapping
from functools import cache

from attnlab.config.capabilities import signature_of
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.report.read_runs import FoundRun

TOKENS = "accuracy"
"""counts tokens in a language model, else examples"""
MOST = 10**12
"""of anything counted; larger numbers are damage"""
_LANGUAGE_MODELS = ("language_model", "masked_language_model")


def is_share(metric: str) -> bool:
    """Whether a metric is the share of right answers in a test set; F1 and correlations are not."""
    return metric.startswith("test") and metric.rpartition("/")[2] in (TOKENS, *SEQUENCE_METRICS)


def examples_of(metric: str, run: FoundRun) -> int | None:
    """The number of answers that a share is over: test examples, or tokens; None where the result lacks it."""
    part, _, name = metric.rpartition("/")
    counts = run.result.get("counts", {})
    of_tokens = name == TOKENS and _kind(run.config["task"].get("_target_", "")) in _LANGUAGE_MODELS
    found = counts.get(f"{part}/tokens" if of_tokens else part) if isinstance(counts, Mapping) else None
    return found if isinstance(found, int) and 0 < found <= MOST else None


@cache
def _kind(target: str) -> str | None:
    """The `kind` of a task's class, read from its source; None where it cannot be read."""
    try:
        return signature_of({"_target_": target}).attributes.get("kind")
    except Exception:
        return None
