"""Reports over several data seeds, and choices among values by validation."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.plain_json import json_text
from attnlab.config.problem import ConfigError
from attnlab.config.report_block import Hypothesis, Report
from attnlab.report.analysis_record import ReportSeed
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.hypothesis_answers import answers
from attnlab.report.page.cli import page_main
from attnlab.report.report_notes import notes, problems
from attnlab.report.runs.read_runs import DIVERGED
from attnlab.report.runs.select_runs import plain_report, select_glob
from attnlab.report.statistics.data_seeds import paired_on_data
from attnlab.report.table_types import Table, TableError
from attnlab.report.text_tables import mean_and_sd

LINEAR = {1: (0.40, 0.42, 0.44), 2: (0.50, 0.52, 0.54)}
"""accuracies of three seeds by data seed"""
REPORT = Report(title="t", columns={"ood": OOD}, hypotheses=[Hypothesis(row="linear_l2", than="linear", column="ood")])


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    return {name: compose_config([*SMALL_SCAN, f"model={name}"]) for name in ("linear", "linear_l2")}


def write(runs: Path, config: dict[str, Any], data_seed: int, seed: int, ood: float, **more: Any) -> None:
    changed = config | {"seed": seed, "task": config["task"] | {"data_seed": data_seed}}
    folder = runs / "scan" / config["model"]["name"] / f"data{data_seed}" / f"seed{seed}"
    a_run(folder, changed, ood, data={"hash": f"{data_seed}"}, **more)


@pytest.fixture
def runs(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> Path:
    """linear_l2 is better by 1 on data 1 and by 3 on data 2, and lacks a seed there."""
    for data_seed, numbers in LINEAR.items():
        for seed, ood in enumerate(numbers):
            write(tmp_path / "runs", configs["linear"], data_seed, seed, ood)
            if (data_seed, seed) != (2, 2):
                write(tmp_path / "runs", configs["linear_l2"], data_seed, seed, ood + (0.01, 0.03)[data_seed - 1])
    return tmp_path / "runs"


def table_of(runs: Path, report: Report | None = None) -> Table:
    selection = select_glob(str(runs))
    return make_table(report or plain_report(selection), selection.runs)


def test_data_seeds_are_no_rows_and_their_means_weigh_alike(runs: Path) -> None:
    table = table_of(runs)
    assert list(table.cells) == ["linear", "linear_l2"]
    cells = [row["ood"] for row in table.cells.values()]
    # (41 + 43 + 45) / 3 and (53 + 55) / 2, not the mean of five runs
    assert [cell.mean for cell in cells] == [pytest.approx(47.0), pytest.approx((43 + 54) / 2)]
    assert mean_and_sd(cells[1]).endswith("(5, 2 data seeds)")
    assert list(cells[1].values) == ["0 of data 1", "1 of data 1", "2 of data 1", "0 of data 2", "1 of data 2"]
    result = next(spread for spread in table.data_seeds() if spread.column == "ood")
    assert [(item.data_seed, item.mean, item.n) for item in result.means] == [
        (1, pytest.approx(42), 3),
        (2, pytest.approx(52), 3),
    ]
    assert result.within == pytest.approx(2) and result.between == pytest.approx(50**0.5)
    assert result.expected == pytest.approx(2 / 3**0.5)


def test_differences_never_cross_data_sets_and_count_them(runs: Path) -> None:
    (result,) = table_of(runs, REPORT).comparisons()
    assert result.difference == pytest.approx(2.0) and result.units == "data seeds"
    assert result.seeds == [("data 1", pytest.approx(1.0)), ("data 2", pytest.approx(3.0))]
    assert result.method == "range over 2 paired data seeds, each the mean of its seeds"
    (answer,) = answers(table_of(runs, REPORT))
    assert answer.verdict == "undecided" and "as claimed in 2 of 2" in answer.reason
    assert answer.reason.startswith("linear_l2 without seeds 2 of data 2 (not in the table): no verdict")


def test_rows_on_different_data_have_no_difference() -> None:
    def seeds(*data: int) -> list[ReportSeed]:
        return [
            ReportSeed(seed=at, value=float(at), state="finished", data_seed=item) for item in data for at in (0, 1)
        ]

    assert paired_on_data(seeds(1), seeds(2), OOD) is None
    within = paired_on_data(seeds(1, 2), seeds(2, 3), OOD)
    assert within is not None and within.method == "range over 2 paired seeds"
    growing = [ReportSeed(seed=0, value=2.0 * data, state="finished", data_seed=data) for data in (1, 2, 3, 4, 5)]
    tested = paired_on_data(growing, seeds(1, 2, 3, 4, 5), OOD)
    assert tested is not None and tested.method.startswith("95 % paired t interval, 5 data seeds")


def test_the_section_stands_in_every_output(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "reports" / "data"
    assert report_main([f"runs={runs}", f"out={out}", "figures=bars"]) == 0
    line = "data 1: 42.0 (3), data 2: 52.0 (3)"
    assert line in capsys.readouterr().out and line in (out / "table.md").read_text()
    content = json.loads((out / "report.json").read_text())
    assert [item["row"] for item in content["data_seeds"] if item["column"] == "ood"] == ["linear", "linear_l2"]
    assert page_main([f"measured={tmp_path / 'reports'}", f"reports={tmp_path}", f"out={tmp_path / 'page.html'}"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h3>Data seeds</h3>" in page and "0 of data 2" in page and "2 data seeds" in page


def test_one_data_seed_with_two_contents_is_refused(runs: Path, configs: dict[str, dict[str, Any]]) -> None:
    file = runs / "scan/linear/data1/seed0/result.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"data": {"hash": "other"}}))
    with pytest.raises(TableError, match="runs on different data would meet"):
        table_of(runs, REPORT)


def by_rate(runs: Path, config: dict[str, Any], values: dict[float, tuple[float, float | None]], seed: int = 0) -> None:
    """A run for every learning rate, with an accuracy out of distribution and one in validation."""
    for rate, (ood, val) in values.items():
        selection = {"rule": "last_step", "step": 20} | ({} if val is None else {"val/sequence_accuracy": val})
        changed = config | {"optim": config["optim"] | {"lr": rate}, "seed": seed}
        a_run(runs / f"lr{rate}" / f"seed{seed}", changed, ood, selection=selection)


def chosen(runs: Path, **block: Any) -> tuple[Table, str]:
    table = table_of(runs, Report(title="t", columns={"ood": OOD}, **block))
    return table, "\n".join(notes(table))


def test_validation_chooses_and_says_so(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> None:
    by_rate(tmp_path, configs["linear"], {0.1: (0.2, 0.9), 0.2: (0.8, 0.7), 0.3: (0.5, 0.9), 0.4: (0.9, None)})
    table, text = chosen(tmp_path, best_over=["optim.lr"], chosen_by="val/sequence_accuracy")
    assert table.cells["linear"]["ood"].mean == pytest.approx(20.0)
    assert "linear, ood: optim.lr=0.1 (val/sequence_accuracy 90.0 %, among 4 values, 1 without a number" in text
    assert "; equal there, and tried later: optim.lr=0.3" in text
    table, text = chosen(tmp_path, best_over=["optim.lr"])
    assert table.cells["linear"]["ood"].mean == pytest.approx(90.0)
    assert "chosen by the numbers shown, which are too good: linear, ood: optim.lr=0.4" in text
    _, text = chosen(tmp_path, rows=["optim.lr"], chosen_by="val/sequence_accuracy")
    assert "val/sequence_accuracy does not choose between 0.1; 0.3 (90.0 % among 4 values, 1 without a number)" in text


def test_a_value_with_diverged_runs_is_not_chosen_by_the_numbers_shown(
    tmp_path: Path, configs: dict[str, dict[str, Any]]
) -> None:
    config = configs["linear"]
    for seed in range(3):
        by_rate(tmp_path, config, {0.2: (0.8, 0.7), **({0.1: (0.9, 0.7)} if seed == 0 else {})}, seed)
        lost = config | {"optim": config["optim"] | {"lr": 0.1}, "seed": seed}
        if seed:
            a_run(tmp_path / f"lr0.1/seed{seed}", lost, state="failed", status={"reason": f"{DIVERGED} at step 3"})
    table, text = chosen(tmp_path, best_over=["optim.lr"])
    assert table.cells["linear"]["ood"].mean == pytest.approx(80.0) and "too good: linear, ood: optim.lr=0.2" in text


@pytest.mark.parametrize("write", [json.dumps, json_text])
def test_a_value_with_a_number_that_is_not_finite_is_worst(
    write: Callable[[Any], str], tmp_path: Path, configs: dict[str, dict[str, Any]]
) -> None:
    """In files with a bare NaN, as attnlab 0.3.0 wrote them, and in those that name it."""
    for seed, val in enumerate((0.9, math.nan)):
        by_rate(tmp_path, configs["linear"], {0.1: (0.2, val), 0.2: (0.8, 0.7)}, seed)
    for file in tmp_path.rglob("result.json"):
        file.write_text(write(json.loads(file.read_text())))
    table, text = chosen(tmp_path, best_over=["optim.lr"], chosen_by="val/sequence_accuracy")
    assert table.cells["linear"]["ood"].mean == pytest.approx(80.0)
    assert "optim.lr=0.2" in text and "1 with a number that is not finite" in text
    of_validation = Report(title="t", rows=["optim.lr"], columns={"val": "val/sequence_accuracy"})
    [wrong] = [line for line in problems(table_of(tmp_path, of_validation)) if "0.1" in line]
    assert "seed 1" in wrong and "nan, not finite" in wrong


def test_one_value_is_not_chosen(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> None:
    by_rate(tmp_path, configs["linear"], {0.1: (0.2, 0.9)})
    for chosen_by in (None, "val/sequence_accuracy"):
        _, text = chosen(tmp_path, best_over=["optim.lr"], chosen_by=chosen_by)
        assert "the only value tried: linear, ood: optim.lr=0.1" in text and "too good" not in text
    for rate in (0.1, 0.2):
        running = configs["linear"] | {"optim": configs["linear"]["optim"] | {"lr": rate}}
        a_run(tmp_path / "running" / f"lr{rate}/seed0", running, state="running")
    table, text = chosen(tmp_path / "running", best_over=["optim.lr"], chosen_by="val/sequence_accuracy")
    assert table.cells["linear"]["ood"].chosen == "" and "optim.lr=" not in text


def test_rows_are_chosen_under_each_condition(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> None:
    for cutoff, first, second in ((20, 0.9, 0.5), (40, 0.3, 0.6)):
        config = configs["linear"] | {"task": configs["linear"]["task"] | {"length_cutoff": cutoff}}
        by_rate(tmp_path / str(cutoff), config, {0.1: (0.5, first), 0.2: (0.5, second)})
    columns = {f"at_{at}": {"metric": OOD, "where": {"task.length_cutoff": at}} for at in (20, 40)}
    report = Report(title="t", rows=["optim.lr"], columns=columns, chosen_by="val/sequence_accuracy")
    text = "\n".join(notes(table_of(tmp_path, report)))
    assert "chosen by val/sequence_accuracy (at_20): 0.1 (90.0 % among 2 values)" in text
    assert "chosen by val/sequence_accuracy (at_40): 0.2 (60.0 % among 2 values)" in text


def test_values_are_compared_over_the_seeds_that_all_have(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> None:
    config, block = configs["linear"], {"best_over": ["optim.lr"], "chosen_by": "val/sequence_accuracy"}
    by_rate(tmp_path, config, {0.1: (0.2, 0.6)}, seed=0)
    by_rate(tmp_path, config, {0.1: (0.2, 0.8), 0.2: (0.8, 0.75)}, seed=1)
    table, text = chosen(tmp_path, **block)
    assert table.cells["linear"]["ood"].mean == pytest.approx(20.0)
    assert "80.0 %, among 2 values, over the 1 seed that all of them have" in text
    # the better value at the common seed has another run, which diverged
    diverged = config | {"optim": config["optim"] | {"lr": 0.1}, "seed": 2}
    a_run(tmp_path / "lr0.1" / "seed2", diverged, state="failed", status={"reason": f"{DIVERGED} at step 3"})
    table, text = chosen(tmp_path, **block)
    assert table.cells["linear"]["ood"].mean == pytest.approx(80.0)
    assert "75.0 %, among 2 values, 1 with a run that diverged" in text
    by_rate(tmp_path, config, {0.3: (0.5, 0.9)}, seed=5)
    with pytest.raises(TableError, match="no seed has it at all values"):
        chosen(tmp_path, **block)


def test_a_choice_without_validation_is_refused(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> None:
    by_rate(tmp_path, configs["linear"], {0.1: (0.2, None), 0.2: (0.8, None)})
    with pytest.raises(TableError, match="val/sequence_accuracy: no finished run has it"):
        chosen(tmp_path, best_over=["optim.lr"], chosen_by="val/sequence_accuracy")
    with pytest.raises(ConfigError, match="expected a validation metric"):
        chosen(tmp_path, best_over=["optim.lr"], chosen_by=OOD)
