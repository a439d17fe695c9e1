"""Metrics of records: against plain loops, over groups and lengths, and undefined values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.data.task_spec import TaskSpec
from attnlab.learn.metrics import METRICS, MetricError, by_length, improves, metric_functions, summarise
from attnlab.tasks.kinds.classification import ClassificationKind

LABELS = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30)
NUMBERS = st.lists(
    st.tuples(st.integers(-9, 9).map(float), st.integers(-9, 9).map(float)), min_size=3, max_size=20, unique=True
)


def records(pairs: list[tuple[float, float]]) -> dict[str, np.ndarray]:
    predicted, answer = (np.array(side) for side in zip(*pairs, strict=True))
    return {"predicted": predicted, "answer": answer, "right": predicted == answer}


@settings(max_examples=50, deadline=None)
@given(LABELS)
def test_metrics_of_classes_equal_plain_counts(pairs: list[tuple[int, int]]) -> None:
    result = records(pairs)
    tp, fp, fn, tn = (pairs.count(pair) for pair in ((1, 1), (1, 0), (0, 1), (0, 0)))
    assert METRICS["accuracy"](result) == pytest.approx((tp + tn) / len(pairs))
    assert METRICS["f1"](result) == pytest.approx(2 * tp / (2 * tp + fp + fn) if tp else 0.0)
    size = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    if size:
        assert METRICS["matthews_correlation"](result) == pytest.approx((tp * tn - fp * fn) / size, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(NUMBERS)
def test_correlations_equal_plain_computations(pairs: list[tuple[float, float]]) -> None:
    result = records(pairs)
    x, y = result["predicted"], result["answer"]
    if np.ptp(x) and np.ptp(y):
        assert METRICS["pearson"](result) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-5)
        ranks = [[sum(v < w for v in side) + (sum(v == w for v in side) - 1) / 2 for w in side] for side in (x, y)]
        assert METRICS["spearman"](result) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-5)


def test_what_is_undefined_is_zero() -> None:
    constant = records([(1, 1), (1, 0), (1, 1)])
    assert (
        METRICS["matthews_correlation"](constant) == METRICS["pearson"](constant) == METRICS["spearman"](constant) == 0
    )
    assert METRICS["pearson"](records([(1.0, 2.0)])) == 0


def test_perplexities_are_of_tokens_and_of_words() -> None:
    result = {"loss": np.array([6.0, 3.0]), "tokens": np.array([4, 2]), "words": np.array([2, 1]), "right": np.ones(2)}
    assert METRICS["token_perplexity"](result) == pytest.approx(math.exp(1.5))
    assert METRICS["word_perplexity"](result) == pytest.approx(math.exp(3.0))
    assert METRICS["accuracy"](result) == pytest.approx(2 / 6)
    assert METRICS["word_perplexity"](result | {"words": np.zeros(2)}) == math.inf


def test_lower_is_better_for_perplexities_alone() -> None:
    assert improves("accuracy", 0.0, None) and improves("val_loss", 9.0, None)
    assert improves("accuracy", 0.6, 0.5) and not improves("accuracy", 0.5, 0.5)
    assert improves("token_perplexity", 3.0, 4.0) and not improves("token_perplexity", 5.0, 4.0)
    for name in ("token_perplexity", "accuracy"):
        for worst in (math.nan, math.inf, -math.inf):
            assert not improves(name, worst, 4.0) and improves(name, 4.0, worst)
            assert improves(name, worst, math.nan) and improves(name, worst, None), "the last of them is kept"


def test_lengths_one_by_one_and_in_ranges() -> None:
    lengths = np.array([5, 700, 5, 2100, 499])
    assert {name: list(numbers) for name, numbers in by_length(lengths, None).items()} == {
        "length_5": [0, 2], "length_499": [4], "length_700": [1], "length_2100": [3]
    }  # fmt: skip
    assert {name: list(numbers) for name, numbers in by_length(lengths, (0, 500, 1000, 2000)).items()} == {
        "length_0_499": [0, 2, 4], "length_500_999": [1], "length_2000_up": [3]
    }  # fmt: skip


def test_a_summary_has_every_part_with_its_size() -> None:
    result = {"right": np.array([True, False, True, True]), "predicted": np.zeros(4), "answer": np.zeros(4)}
    groups = {"first": np.array([0, 1]), "nobody": np.array([], dtype=int)}
    metrics, counts = summarise(result, {"accuracy": METRICS["accuracy"]}, groups, np.array([1, 1, 2, 2]), None)
    assert metrics == {"accuracy": 0.75, "first/accuracy": 0.5, "length_1/accuracy": 0.5, "length_2/accuracy": 1.0}
    assert counts == {"all": 4, "first": 2, "length_1": 2, "length_2": 2}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("acuracy", "no metric acuracy; nearest: accuracy; metrics: "),
        ("surprise", "metric surprise: no word of it is in metric_units.yaml"),
    ],
)
def test_a_metric_that_could_select_the_wrong_weights_is_refused(
    metric: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ClassificationKind, "metrics", {name: lambda records: 1.0 for name in ("surprise", "squared_error")}
    )
    with pytest.raises(MetricError, match=message):
        metric_functions(TaskSpec(kind="classification", modality="tokens", metrics=(metric,)))
    spec = TaskSpec(kind="classification", modality="tokens", metrics=("squared_error",))
    (name, function), *_ = metric_functions(spec).items()
    assert (name, function({"a": np.zeros(1)})) == ("squared_error", 1.0) and improves("squared_error", 1.0, 2.0)


def test_a_score_that_a_kind_does_not_give_is_named() -> None:
    spec = TaskSpec(kind="classification", modality="tokens", metrics=("accuracy",))
    with pytest.raises(MetricError, match=r"metric accuracy reads the score 'right'; `Kind.scores` gives wrong"):
        metric_functions(spec)["accuracy"]({"wrong": np.zeros(1)})
