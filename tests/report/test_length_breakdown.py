"""Accuracy by length beside its mean, the length that carries a mean, and the error that a test set's size leaves."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlab.config.report_block import Average, Report
from attnlab.learn.metrics import METRICS, summarise
from attnlab.report.build_table import make_table
from attnlab.report.report_record import ReportFile, read_report, report_text
from attnlab.report.runs.read_runs import ReportRun
from attnlab.report.statistics.length_breakdown import MOST_PARTS, length_parts, one_length, warnings
from attnlab.report.table_types import Table
from attnlab.report.table_writers import markdown, record
from attnlab.report.text_tables import length_tables, mean_and_sd

ROOT = Path(__file__).resolve().parents[2]
OOD, F1 = "test/ood/sequence_accuracy", "test/ood/f1"
CUTOFF_26 = {27: 448, 28: 448, 30: 576, 32: 448, 33: 256, 36: 64, 40: 256, 48: 128}
"""examples of SCAN's test/ood at cutoff 26 (tests/tasks/test_scan.py)"""


def a_run(right: Mapping[Any, int], counts: Mapping[Any, int], seed: int = 0, model: str = "linear") -> ReportRun:
    """A finished run with this many right answers at each length; the others have none right."""
    whole = sum(right.values()) / sum(counts.values())
    metrics = {f"test/ood/length_{at}/sequence_accuracy": right.get(at, 0) / n for at, n in counts.items()}
    result = {"metrics": {OOD: whole, F1: 0.5} | metrics}
    result |= {"counts": {"test/ood": sum(counts.values())} | {f"test/ood/length_{at}": n for at, n in counts.items()}}
    config = {"seed": seed, "model": {"name": model}, "task": {"name": "scan", "label": [], "_target_": ""}}
    return ReportRun(Path(f"runs/{model}/seed{seed}"), config, "finished", result=result)


def table_of(runs: Sequence[ReportRun], **columns: str) -> Table:
    return make_table(Report(title="t", columns=columns or {"ood": OOD}), runs)


def without_counts(run: ReportRun) -> ReportRun:
    return replace(run, result={"metrics": run.result["metrics"]})


def test_a_mean_that_one_length_carries_is_named() -> None:
    runs = [a_run({27: 281}, CUTOFF_26), a_run({27: 300, 28: 40}, CUTOFF_26, seed=1)]
    runs += [a_run({27: 448, 28: 448, 30: 400, 33: 100}, CUTOFF_26, model="better")]
    table = table_of(runs)
    cell, better = table.cells["linear"]["ood"], table.cells["better"]["ood"]
    part = cell.one_length
    assert part is not None and (part.named, part.examples) == ("length 27", 2 * 448)
    assert part.share == pytest.approx(100 * 448 / 2624) and part.mean == pytest.approx(100 * 581 / 896)
    assert part.right == pytest.approx(100 * 581 / 621)
    assert mean_and_sd(cell).endswith("(2), 93.6 % of it from length 27")
    assert better.one_length is None and "length" not in mean_and_sd(better)
    text = "linear, ood: 93.6 % of the right answers have length 27, as have 17.1 % of the test set"
    assert warnings(table.each(), table.by_folder) == [f"one length carries the mean: {text}"]


@pytest.mark.parametrize(
    ("right", "counts", "carried"),
    [
        ({1: 60, 2: 40}, {1: 100, 2: 400}, "1"),
        # half of the right answers, and not more
        ({1: 50, 2: 50}, {1: 100, 2: 400}, None),
        # a length that most of the test set has
        ({1: 240, 2: 60}, {1: 400, 2: 100}, None),
        ({1: 70, 2: 30}, {1: 200, 2: 300}, None),
        # too few right answers to be more than chance
        ({1: 9}, {1: 100, 2: 400}, None),
        ({}, {1: 100, 2: 400}, None),
    ],
)
def test_the_rule(right: dict, counts: dict, carried: str | None) -> None:
    parts = length_parts(OOD, [a_run(right, counts)])
    assert parts is not None and sum(part.share for part in parts) == pytest.approx(100)
    result = one_length(parts, 1)
    assert (result and result.name) == carried


def test_many_lengths_are_put_together_by_their_examples() -> None:
    counts = {at: 10 if at < 700 else 1 for at in range(1, 737)}
    run = a_run({at: 5 for at in range(1, 60)}, counts)
    parts = length_parts(OOD, [run])
    assert parts is not None and len(parts) == MOST_PARTS and (parts[0].first, parts[-1].last) == (1, 736)
    assert all(before.last + 1 == after.first for before, after in pairwise(parts) if before.last)
    assert max(part.share for part in parts) < 2 * min(part.share for part in parts)
    whole = math.fsum(part.mean * part.examples for part in parts) / math.fsum(part.examples for part in parts)
    assert whole == pytest.approx(100 * run.result["metrics"][OOD])


def test_ranges_keep_their_names() -> None:
    parts = length_parts(OOD, [a_run({"1_9": 30}, {"1_9": 40, "10_99": 40, "100_up": 40})])
    assert parts is not None and [part.name for part in parts] == ["1-9", "10-99", "100 and more"]


def test_what_cannot_be_broken_down_is_said_or_left_out() -> None:
    whole = a_run({27: 281}, CUTOFF_26)
    wrong = a_run({27: 281}, CUTOFF_26, model="l2")
    wrong.result["counts"]["test/ood/length_28"] = 5
    table = table_of([without_counts(whole), wrong])
    assert length_tables(record(table, experiment="e")) == ("", []) and all(
        cell.by_length is None for cell in table.each()
    )
    error, text = warnings(table.each(), table.by_folder)
    assert text.startswith("no breakdown by length, because") and text.endswith("linear (ood), l2 (ood)")
    assert error.endswith("linear (ood)") and table.cells["l2"]["ood"].test_set_error is not None
    # a length with a number that no accuracy has
    wild = a_run({27: 281}, CUTOFF_26)
    wild.result["metrics"] |= {f"test/ood/length_{at}/sequence_accuracy": n for at, n in ((27, 1e308), (28, -math.inf))}
    assert length_parts(OOD, [wild]) is None
    # no share of examples
    plain = table_of([whole], f1=F1)
    assert not warnings(plain.each(), plain.by_folder)
    assert length_parts(OOD, [a_run({27: 3}, {27: 9})]) is None


def test_a_report_holds_the_breakdown(tmp_path: Path) -> None:
    even = {at: n for at, n in CUTOFF_26.items()}
    table = table_of([a_run({27: 281}, CUTOFF_26), a_run(even, CUTOFF_26, model="all")])
    made = record(table, experiment="e")
    text = markdown(made)
    assert "| share of the test set | 100.0 | 17.1 | 17.1 | 22.0 | 17.1 | 9.8 | 2.4 | 9.8 | 4.9 |" in text
    assert "| linear | 10.7 | 62.7 | 0.0 |" in text and "| all | 100.0 | 100.0 |" in text
    (tmp_path / "report.json").write_text(report_text(made))
    report = read_report(tmp_path / "report.json")
    assert isinstance(report, ReportFile) and length_tables(report) == length_tables(made)
    cells = {row.name: row.cells[0] for row in report.rows}
    assert cells["linear"].one_length == table.cells["linear"]["ood"].one_length is not None
    assert cells["all"].one_length is None and cells["linear"].test_set_error is not None
    message, tables = length_tables(record(table_of([a_run(even, CUTOFF_26)]), experiment="e"))
    assert message.endswith(". ood: no length is more than 1 point from the mean.") and not tables
    mixed = [a_run({27: 5, 28: 5}, {27: 10, 28: 10}), a_run({27: 10}, {27: 10, 30: 10}, model="other")]
    message, tables = length_tables(record(table_of(mixed), experiment="e"))
    assert message.endswith(". ood of linear: no length is more than 1 point from the mean.") and len(tables) == 1


def test_the_committed_quickstart_has_its_mean_from_length_27() -> None:
    result = json.loads((ROOT / "experiments/measured/quickstart/result.json").read_text())
    run = replace(a_run({}, CUTOFF_26), result=result)
    table = table_of([run], iid="test/iid/sequence_accuracy", ood=OOD, oracle=f"{OOD}_oracle_end")
    cells = table.cells["linear"]
    part = cells["ood"].one_length
    assert part is not None and part.name == "27" and round(part.right or 0) == 97
    assert cells["iid"].one_length is None and cells["oracle"].one_length is None
    assert all(len(cell.by_length or ()) <= MOST_PARTS for cell in table.each())


def test_a_test_set_leaves_a_binomial_error() -> None:
    run = a_run({1: 1740}, {1: 2000})
    table = table_of([run])
    error = table.cells["linear"]["ood"].test_set_error
    assert error == pytest.approx(0.752, abs=5e-4)
    drawn = np.random.default_rng(0).binomial(2000, 0.87, size=4000) / 20
    assert error == pytest.approx(drawn.std(), rel=0.03)
    # none at 0 and 100 %, and nothing to be said of it
    perfect = table_of([a_run({1: 2000}, {1: 2000})])
    assert perfect.cells["linear"]["ood"].test_set_error is None and not warnings(perfect.each(), perfect.by_folder)
    # seeds with test sets of two sizes
    mixed = table_of([run, a_run({1: 870}, {1: 1000}, seed=1)])
    assert mixed.cells["linear"]["ood"].test_set_error is None and warnings(mixed.each(), mixed.by_folder)


def test_the_error_of_an_average_is_of_independent_parts() -> None:
    report = Report(title="t", columns={"a": OOD, "b": OOD}, average=Average(name="mean", of=["a", "b"]))
    cells = make_table(report, [a_run({1: 1740}, {1: 2000})]).cells["linear"]
    single = cells["a"].test_set_error
    assert single is not None and cells["mean"].test_set_error == pytest.approx(single / math.sqrt(2))
    assert cells["mean"].by_length is None


def test_accuracies_of_tokens_count_tokens() -> None:
    records = {"right": np.array([3, 2]), "tokens": np.array([4, 2]), "sequence_accuracy": np.array([0, 1])}
    metrics = {name: METRICS[name] for name in ("accuracy", "sequence_accuracy")}
    _, counts = summarise(records, metrics, {"g": np.array([1])}, np.array([8, 9]), None)
    assert {name: n for name, n in counts.items() if name.endswith("tokens")} == {
        "tokens": 6, "g/tokens": 2, "length_8/tokens": 4, "length_9/tokens": 2,
    }  # fmt: skip
    run = a_run({}, {1: 1})
    flip_flop = {"name": "flip_flop", "label": [], "_target_": "attnlab.tasks.flip_flop.task.FlipFlop"}
    result = {"metrics": {"test/iid/accuracy": 0.87}, "counts": {"test/iid": 400, "test/iid/tokens": 2000}}
    run = replace(run, config=run.config | {"task": flip_flop}, result=result)
    cell = table_of([run], iid="test/iid/accuracy").cells["linear"]["iid"]
    assert cell.examples == 2000
    del result["counts"]["test/iid/tokens"]
    assert table_of([run], iid="test/iid/accuracy").cells["linear"]["iid"].test_set_error is None
