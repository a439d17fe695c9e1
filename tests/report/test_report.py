"""report.py: cells from run folders next to published numbers; missing and broken runs are named, not averaged."""

import csv
import itertools
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.small_runs import ROOT, SMALL_SCAN, config_of, environment
from support.written_runs import IID, OOD, a_run

from attnlab.config.fill_defaults import completed
from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Average, Picture, Report
from attnlab.config.run_identity import run_folder
from attnlab.learn.metric_units import lower_is_better, unit_of
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.published_numbers import Published, PublishedError, Value, published_table
from attnlab.report.report_notes import notes
from attnlab.report.report_record import read_report
from attnlab.report.runs.read_runs import DIVERGED, Unreadable, look, run_folders
from attnlab.report.runs.select_runs import plain_report, select_glob, spent_runs
from attnlab.report.statistics.differences import interval, mean, paired, sd
from attnlab.report.table_types import TableError
from attnlab.report.table_writers import latex, record
from attnlab.report.text_tables import each_seed, mean_and_sd
from attnlab.run.evaluate_run import unfinished
from attnlab.run.provenance import COMPARABLE_VERSIONS
from attnlab.run.run_lock import LOCK, acquired_lock

EXPERIMENT = "park2024/table4_scan_small"
Make = Callable[..., Path]


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    """Configurations of two models; composing is what costs time here."""
    return {name: compose_config([*SMALL_SCAN, f"model={name}"]) for name in ("linear", "linear_l2")}


@pytest.fixture
def made(tmp_path: Path, configs: dict[str, dict[str, Any]]) -> Make:
    """Makes a run folder below tmp_path/runs."""

    def make(model: str, seed: int, ood: float | None = 0.5, state: str = "finished", **more: Any) -> Path:
        config = configs[model] | {"seed": seed} | more.pop("config", {})
        return a_run(tmp_path / "runs" / "scan" / model / "tag" / f"seed{seed}", config, ood, state, **more)

    return make


def table_of(folder: Path, report: Report | None = None, published: Published | None = None) -> Any:
    source = select_glob(str(folder))
    return make_table(report or plain_report(source), source.runs, published)


SIMPLE = Report(title="t", columns={"ood": OOD})


def test_a_number_that_all_seeds_share_has_no_spread(made: Make, tmp_path: Path) -> None:
    for seed in range(3):
        made("linear", seed, 0.5)
    cells = table_of(tmp_path / "runs", replace(SIMPLE, columns={"ood": OOD, "size": "parameters"})).cells["linear"]
    assert [mean_and_sd(cell) for cell in cells.values()] == ["50.0 (3)", "2.50 (3)"]


def test_means_are_over_finished_seeds_only(made: Make, tmp_path: Path) -> None:
    made("linear", 0, 0.4)
    made("linear", 1, 0.5)
    made("linear", 2, 0.9, "failed", status={"reason": "NonFiniteLoss: the loss is nan at step 7\nmore"})
    made("linear", 3, 0.9, "running")
    cell = table_of(tmp_path / "runs", SIMPLE).cells["linear"]["ood"]
    assert cell.values == {0: 40.0, 1: 50.0}
    assert (cell.mean, cell.sd) == (45.0, pytest.approx(50**0.5))
    assert mean_and_sd(cell) == "45.0 ± 7.1 (2 of 4)" and each_seed(cell) == "40.0, 50.0"
    assert (cell.best, cell.worst) == ((1, 50.0), (0, 40.0))
    assert {seed.seed: seed.state for seed in cell.seeds}[2] == "failed"


def test_states_of_runs_are_read(made: Make, configs: dict, tmp_path: Path) -> None:
    host = __import__("socket").gethostname()
    folders = {
        "finished": made("linear", 0),
        "failed": made("linear", 1, state="failed", status={"reason": "out of memory"}),
        "stopped": made("linear", 2, state="stopped"),
        "running": made("linear", 3, state="running", status={"host": host, "pid": os.getpid()}),
        "interrupted": made("linear", 4, state="running", status={"host": host, "pid": 2**22 + 1}),
        "other version": made("linear", 5, versions={"attnlab": "0.0.1"}),
        "unreadable": made("linear", 6),
        "other settings": made("linear", 7, config={"optim": configs["linear"]["optim"] | {"lr": 0.5}}),
    }
    (folders["unreadable"] / "result.json").write_text('{"metrics": {"te')
    for state, folder in folders.items():
        run = look(folder, configs["linear"])
        assert run.state == state, run
        assert (run.value(OOD) is None) == (state != "finished")
    assert look(tmp_path / "nowhere", configs["linear"]).state == "missing"
    assert "optim.lr" in look(folders["other settings"], configs["linear"]).reason
    assert "0.0.1" in look(folders["other version"]).reason
    for seed, version in enumerate(COMPARABLE_VERSIONS, start=10):
        assert look(made("linear", seed, versions={"attnlab": version})).state == "finished"
    elsewhere = made("linear", 8, state="running", status={"host": "another machine", "pid": os.getpid()})
    assert look(elsewhere).state == "interrupted", "nobody holds the lock of its folder"
    (elsewhere / LOCK).touch()
    with acquired_lock(elsewhere):
        assert look(elsewhere).state == "running"
    older_data = made("linear", 9, data={"version": "0", "about": ""})
    assert look(older_data).state == "other version"


def test_a_running_run_says_what_it_has_logged_and_what_it_has_saved(made: Make) -> None:
    status = {"host": __import__("socket").gethostname(), "pid": os.getpid(), "step": 1000}
    folder = made("linear", 0, state="running", status=status)
    assert look(folder).reason == "last checkpoint at step 1000"
    (folder / "metrics.csv").write_text("step,name,value\n1400,train/loss,0.1\n1450,train/loss,0.1\n")
    assert look(folder).reason == "step 1450, last checkpoint at step 1000"
    assert look(made("linear", 1, state="running", status=status | {"step": 0})).reason == "no checkpoint yet"


def test_rows_of_two_tasks_are_compared_within_their_task(made: Make, configs: dict, tmp_path: Path) -> None:
    other = configs["linear"]["task"] | {"name": "other", "label": []}
    for seed in range(2):
        for model, ood in (("linear", 0.4), ("linear_l2", 0.5)):
            made(model, seed, ood)
            config = configs[model] | {"task": other, "seed": seed}
            a_run(tmp_path / "runs" / "other" / model / "default" / f"seed{seed}", config, ood + 0.2)
    table = table_of(tmp_path / "runs", replace(SIMPLE, rows=["task", "model"]))
    label = "scan-length_cutoff-40"
    compared = [(item.row, item.against, item.difference) for item in table.comparisons()]
    assert sorted(compared) == [
        ("other, linear_l2", "other, linear", pytest.approx(10)),
        (f"{label}, linear_l2", f"{label}, linear", pytest.approx(10)),
    ]
    # in columns of their own too
    columns = {task: {"metric": OOD, "where": {"task.name": task}} for task in ("scan", "other")}
    table = table_of(tmp_path / "runs", replace(SIMPLE, rows=["task", "model"], columns=columns))
    assert sorted(item.column for item in table.comparisons()) == ["other", "scan"]


def test_rows_of_two_splits_are_compared_within_their_split(made: Make, configs: dict, tmp_path: Path) -> None:
    """Splits that are no part of the folder's name have other tests too, and are no settings that were tried."""
    for split, seed in itertools.product(("pairs", "objects"), range(2)):
        for model, ood in (("linear", 0.4), ("linear_l2", 0.5)):
            task = configs[model]["task"] | {"name": "other", "label": [], "split": split}
            data = {"hash": split, "about": split} if split == "pairs" else {"hash": split}
            config = configs[model] | {"task": task, "seed": seed}
            a_run(tmp_path / "runs" / "other" / model / split / f"seed{seed}", config, ood, data=data)
    table = table_of(tmp_path / "runs", replace(SIMPLE, rows=["task.split", "model"]))
    assert [(item.row, item.against) for item in table.comparisons()] == [
        ("objects, linear_l2", "objects, linear"),
        ("pairs, linear_l2", "pairs, linear"),
    ]
    spent = spent_runs(table.runs, tmp_path / "runs")
    assert [(item.task, item.model, item.settings, item.runs) for item in spent] == [
        (f"other-{split}", model, 1, 2) for model in ("linear", "linear_l2") for split in ("objects", "pairs")
    ]
    assert "computed on (4 of 8 runs): pairs" in notes(table)


def test_a_finished_status_without_a_result_is_no_number(made: Make) -> None:
    folder = made("linear", 0)
    (folder / "result.json").unlink()
    assert look(folder).state == "unreadable"


def test_numbers_beside_the_metrics(made: Make) -> None:
    folder = made("linear", 0)
    rows = ["step,name,value", "10,val/accuracy,0.1", "20,val/accuracy,0.25"]
    rows += [f"{step},train/gradient_norm,{value}" for step, value in ((1, 1.0), (2, 3.0))]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n3,train/grad")
    run = look(folder)
    assert run.value("parameters") == 2.5
    assert run.value("val/accuracy") == 25.0
    assert run.value("relative_sd(train/gradient_norm)") == 0.5
    assert run.value("max(train/gradient_norm)") == 3.0
    assert run.value("relative_sd(train/nothing)") is None and run.value("max(train/nothing)") is None
    assert run.value("test/nothing") is None
    assert unit_of(OOD).name == "percent" and lower_is_better("test/word_perplexity") and not lower_is_better(OOD)


def test_a_number_that_is_not_finite_is_none(made: Make, tmp_path: Path) -> None:
    made("linear", 0, 0.5)
    made("linear", 1, math.nan)
    cell = table_of(tmp_path / "runs", SIMPLE).cells["linear"]["ood"]
    assert cell.values == {0: 50.0} and "not finite" in cell.seeds[1].reason


def test_different_settings_never_meet_in_one_mean(made: Make, configs: dict, tmp_path: Path) -> None:
    made("linear", 0)
    made("linear", 1, config={"optim": configs["linear"]["optim"] | {"lr": 0.5}})
    with pytest.raises(TableError, match=r"optim\.lr.*rows"):
        table_of(tmp_path / "runs", SIMPLE)
    by_rate = Report(title="t", rows=["model", "optim.lr"], columns={"ood": OOD})
    assert list(table_of(tmp_path / "runs", by_rate).cells) == ["linear, 0.001", "linear, 0.5"]
    assert list(table_of(tmp_path / "runs").cells) == ["lr=0.001", "lr=0.5"]
    # a key that the label of the task holds, where the task is no key of the rows
    made("linear", 2, config={"task": configs["linear"]["task"] | {"length_cutoff": 30}})
    selection = select_glob(str(tmp_path / "runs"))
    report = plain_report(selection, rows=["model", "optim.lr", "task.length_cutoff", "model"])
    result = list(table_of(tmp_path / "runs", report).cells)
    assert result[::2] == ["linear, lr=0.001, length_cutoff=40", "linear, lr=0.001, length_cutoff=30"]


def test_the_same_seed_twice_is_refused(made: Make, configs: dict, tmp_path: Path) -> None:
    made("linear", 0)
    a_run(tmp_path / "runs" / "again" / "seed0", configs["linear"] | {"seed": 0})
    with pytest.raises(TableError, match="same run twice"):
        table_of(tmp_path / "runs", SIMPLE)


def test_seeds_on_different_data_are_refused(made: Make, configs: dict, tmp_path: Path) -> None:
    for seed, name in ((0, "a"), (1, "a"), (2, "b")):
        a_run(tmp_path / "runs" / "linear" / f"seed{seed}", configs["linear"] | {"seed": seed}, data={"hash": name})
    with pytest.raises(TableError, match=r"different data .* \(data a: .*seed0, .*seed1; data b: .*seed2\)"):
        table_of(tmp_path / "runs", SIMPLE)


def test_rows_on_different_data_are_refused(configs: dict, tmp_path: Path) -> None:
    for model, name in (("linear", "a"), ("linear_l2", "b")):
        a_run(tmp_path / "runs" / model / "seed0", configs[model] | {"seed": 0}, data={"hash": name})
    with pytest.raises(TableError, match=r"different data .* \(data a: .*linear/seed0; data b: .*linear_l2/seed0\)"):
        table_of(tmp_path / "runs", SIMPLE)


def test_best_over_takes_the_better_mean_not_the_better_seed(made: Make, configs: dict, tmp_path: Path) -> None:
    made("linear", 0, 0.4)
    made("linear", 1, 0.6)
    for seed, ood in ((0, 0.1), (1, 0.8)):
        config = configs["linear"] | {"seed": seed, "optim": configs["linear"]["optim"] | {"lr": 0.5}}
        a_run(tmp_path / "runs" / "other" / f"seed{seed}", config, ood)
    report = Report(title="t", columns={"ood": OOD}, best_over=["optim.lr"])
    cell = table_of(tmp_path / "runs", report).cells["linear"]["ood"]
    assert (cell.mean, cell.chosen) == (50.0, "optim.lr=0.001")


def test_a_task_whose_runs_all_diverged_has_cells(
    made: Make, tmp_path: Path, configs: dict[str, dict[str, Any]]
) -> None:
    other = {"task": configs["linear"]["task"] | {"split": "simple"}}
    made("linear", 0)
    made("linear_l2", 1, None, "failed", config=other, status={"reason": f"{DIVERGED} at step 3"})
    cells = [cell for cell in table_of(tmp_path / "runs").each() if cell.column.metric == OOD]
    assert [(cell.n, cell.states) for cell in cells] == [(1, "finished"), (0, "failed")]


def test_averages_need_every_part_of_a_seed(made: Make, tmp_path: Path) -> None:
    made("linear", 0, 0.5)
    made("linear", 1, None)
    report = Report(title="t", columns={"iid": IID, "ood": OOD}, average=Average(name="both", of=["iid", "ood"]))
    cell = table_of(tmp_path / "runs", report).cells["linear"]["both"]
    assert cell.values == {0: pytest.approx(74.5)} and len(cell.seeds) == 2
    assert cell.seeds[1].state == "unreadable", "as its part is, and not missing"
    made("linear", 2, config={"task": compose_config(SMALL_SCAN)["task"] | {"split": "simple"}})
    columns = {split: {"metric": OOD, "where": {"task.split": split}} for split in ("simple", "length_cutoff")}
    report = replace(report, columns=columns, average=Average(name="both", of=[*columns]))
    seeds = table_of(tmp_path / "runs", report).cells["linear"]["both"].seeds
    assert [(seed.key, seed.value) for seed in seeds] == [(2, None), (0, None), (1, None)], "a seed of any part"


def test_logged_values_are_summarised_over_the_steps_that_all_runs_have_logged(
    made: Make, tmp_path: Path, configs: dict[str, dict[str, Any]]
) -> None:
    for seed, every in enumerate((1, 100)):
        folder = made("linear", seed, config={"train": configs["linear"]["train"] | {"log_every": every}})
        values = {step: 30.0 if step == 50 else 1.0 for step in range(every, 201, every)}
        lines = [f"{step},train/gradient_norm,{value}" for step, value in values.items()]
        (folder / "metrics.csv").write_text("\n".join(["step,name,value", *lines]) + "\n")
    report = Report(title="t", columns={"largest": "max(train/gradient_norm)"})
    cell = table_of(tmp_path / "runs", report).cells["linear"]["largest"]
    assert cell.values == {0: 1.0, 1: 1.0} and cell.best is cell.worst is None, "neither of two norms is better"


def test_a_maximum_is_over_all_steps_where_a_run_has_them(
    made: Make, tmp_path: Path, configs: dict[str, dict[str, Any]]
) -> None:
    """A run that logged its peak between two rows; one of a former version beside it; one that changed in between."""
    whole = ["10,train/gradient_norm,1.0", "10,train/gradient_norm_max,9.0", "15,train/gradient_norm,2.0"]
    kinds = {"linear": [*whole, "15,train/gradient_norm_max,3.0"], "linear_l2": whole}
    for model, lines in kinds.items():
        for seed in range(2):
            train = configs[model]["train"] | {"log_every": 10}
            folder = made(model, seed, config={"train": train})
            (folder / "metrics.csv").write_text("\n".join(["step,name,value", *lines]) + "\n")
    report = Report(title="t", columns={"largest": "max(train/gradient_norm)"})
    table = table_of(tmp_path / "runs", report)
    assert table.cells["linear"]["largest"].values == {0: 9.0, 1: 9.0}
    assert table.cells["linear_l2"]["largest"].values == {0: 1.0, 1: 1.0}, "of steps that both logged"
    [note] = [line for line in notes(table) if "over logged steps only" in line]
    assert note.startswith("in largest") and note.endswith(": linear_l2")
    shutil.rmtree(tmp_path / "runs" / "scan" / "linear")
    table = table_of(tmp_path / "runs", report)
    assert not any("over logged steps only" in line for line in notes(table)), "all are"


def test_published_values_stand_beside_ours(made: Make, tmp_path: Path) -> None:
    for seed, ood in enumerate((0.4, 0.5, 0.6)):
        made("linear", seed, ood)
    known = {("linear", "ood"): Value(46.9, None, None, "x"), ("linear", "iid"): Value(None, None, "fails", "x")}
    table = make_table(
        Report(title="t", columns={"ood": OOD, "iid": IID}),
        select_glob(str(tmp_path / "runs")).runs,
        Published(table="p/t", paper="A paper", unit="percent", trials=5, source="table 1", cells=known),
    )
    cell = table.cells["linear"]["ood"]
    assert cell.difference == pytest.approx(3.1) and cell.difference_in_sd == pytest.approx(0.31)
    assert table.cells["linear"]["iid"].difference is None
    text = latex(record(table, experiment="e"))
    assert r"46.9" in text and r"\pm" in text and "fails" in text


def test_statistics_of_a_handful() -> None:
    assert mean([1, 2, 6]) == 3 and sd([1, 2, 6]) == pytest.approx(7**0.5) and sd([1]) is None
    # t(0.975, 4) = 2.776 of any table, standard error sqrt(2.5 / 5)
    low, high = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert (3 - low, high - 3) == pytest.approx((2.7764 * 0.5**0.5,) * 2, abs=1e-4)
    assert interval([3.0] * 8) == (3.0, 3.0)
    # Student (1908): hours of sleep gained by ten patients, two drugs; t = 4.0621 with 9 degrees of freedom
    first = dict(enumerate((0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)))
    second = dict(enumerate((1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)))
    result = paired(second, first)
    assert (result.mean, result.low, result.high) == pytest.approx((1.58, 0.7001142, 2.4598858))
    assert result.p == pytest.approx(0.002833, abs=1e-6) and result.by_seed[8] == pytest.approx(4.6)
    assert result.one_sided(1.58) == pytest.approx((0.5, 0.5))
    # with others, the interval leaves out a value where the corrected p-value of it is at most 0.05
    together = paired(second, first, 7)
    assert together.p == result.p and together.corrected == pytest.approx(7 * result.p) and together.low < result.low
    assert 7 * 2 * together.one_sided(together.low)[0] == pytest.approx(0.05)
    few = paired({0: 1.0, 1: 3.0}, {0: 0.0, 1: 1.0, 2: 9.0})
    assert (few.mean, few.low, few.high, few.p, few.method) == (1.5, 1.0, 2.0, None, "range over 2 paired seeds")
    assert paired({0: 1.0}, {0: 0.0}) is None
    # 100 * 0.53 and the like are equal up to rounding
    equal = paired({seed: 53.0 + 1e-14 * seed for seed in range(5)}, dict.fromkeys(range(5), 49.2))
    assert equal.p is None and equal.method.startswith("equal in all 5 seeds") and equal.low == equal.high == 3.8
    nothing = paired(dict.fromkeys(range(5), 0.1 + 0.2), dict.fromkeys(range(5), 0.3))
    assert (nothing.mean, nothing.low, nothing.high) == (0.0, 0.0, 0.0)


def test_intervals_of_five_normal_seeds_have_their_coverage() -> None:
    """4,000 times five normal seeds: the standard error of the share is 0.34 points."""
    source = random.Random(16)
    ends = [interval([source.gauss(3, 2) for _ in range(5)]) for _ in range(4_000)]
    assert 0.94 <= mean([low <= 3 <= high for low, high in ends]) <= 0.96


def test_seeds_far_apart_are_written_out(made: Make, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for seed, ood in enumerate((0.5, 0.51, 0.99)):
        made("linear", seed, ood)
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert report_main(words) == 0
    printed = capsys.readouterr().out
    assert "66.7 ± 28.0 (3)" in printed and "50.0, 51.0, 99.0" in printed
    [bars] = json.loads((tmp_path / "out" / "report.json").read_text())["figures"]
    assert "bar: mean of 3 seeds, dot: one seed." in bars["caption"]


def test_words_that_change_an_experiment_leave_the_published_values_out(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    small = ["experiment=park2024/table4_scan", f"paths.runs={tmp_path / 'seeds'}", "model=linear", "seed=0"]
    for words, text in (([], "46.9"), (["train.max_steps=7"], "not at the preset's settings: train.max_steps=7")):
        composed_config = compose_config([*small, *words])
        composed_config.pop("report")
        a_run(run_folder(composed_config), composed_config, 0.25)
        assert report_main([*small, *words, f"out={tmp_path / 'out'}"]) == 0
        shown = capsys.readouterr().out
        assert text in shown and ("46.9" in shown) == (not words)
        assert all(f"outputs longer than 26 actions ({word})" in shown for word in words), "the title has the change"


def test_runs_that_begin_with_others_are_one_setting(made: Make, configs: dict, tmp_path: Path) -> None:
    """Each seed begins with the same seed of another setting; of another one they would be another row."""
    for seed in (0, 1):
        made("linear", seed, config={"from_run": f"runs/masked/linear/default/seed{seed}"})
    assert len(table_of(tmp_path / "runs").cells["linear"]["ood"].values) == 2
    made("linear", 2, config={"from_run": "runs/masked/linear/lr=1/seed2"})
    with pytest.raises(TableError, match="from_run"):
        table_of(tmp_path / "runs", SIMPLE)


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("result.json", {"metrics": 3}, "no metrics"),
        ("result.json", {"metrics": {OOD: "much"}}, "no number"),
        ("result.json", {"versions": None}, "versions"),
        ("config.yaml", {"task": None}, "sections"),
    ],
)
def test_files_of_another_form_are_unreadable(made: Make, file: str, change: dict, said: str) -> None:
    folder = made("linear", 0)
    there = yaml.safe_load((folder / file).read_text())
    (folder / file).write_text(json.dumps(there | change))
    try:
        run = look(folder)
    except Unreadable as error:
        assert said in str(error)
    else:
        assert run.state == "unreadable" and said in run.reason


def test_published_files_are_found_by_name(tmp_path: Path) -> None:
    cells = "[{row: linear, column: ood, value: 4.5}]"
    tables = f"  one: {{title: t, unit: percent, source: s, cells: {cells}}}\n  bad: {{title: t}}\n"
    (tmp_path / "a2020.yaml").write_text(f"paper: A\ntables:\n{tables}")
    assert published_table("a2020/one", tmp_path).cells["linear", "ood"].value == 4.5
    for name, message in (("a2021/one", "a2020"), ("a2020/ones", "nearest: one"), ("a2020/bad", "KeyError")):
        with pytest.raises(PublishedError, match=message):
            published_table(name, tmp_path)


def test_an_experiment_names_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = [f"experiment={EXPERIMENT}", f"paths.runs={tmp_path}", "model=linear,linear_l2"]
    assert report_main(words) == 1
    printed = capsys.readouterr().err
    assert "no finished run among 10 (10 missing)" in printed and f"train.py experiment={EXPERIMENT}" in printed
    composed_config = compose_config([f"experiment={EXPERIMENT}", f"paths.runs={tmp_path}", "model=linear", "seed=1"])
    folder = run_folder(composed_config)
    composed_config.pop("report")
    a_run(folder, composed_config, 0.25)
    assert report_main([*words, f"out={tmp_path / 'out'}"]) == 0
    printed = capsys.readouterr().out
    for part in ("linear: missing, seeds 0, 2, 3, 4", "linear_l2: missing, seeds 0, 1, 2, 3, 4", "(1 of 5)"):
        assert part in printed
    written = json.loads((tmp_path / "out" / "report.json").read_text())
    assert written["experiment"] == EXPERIMENT and written["origin"]["commits"] == ["a" * 10]
    with (tmp_path / "out" / "table.csv").open() as file:
        cells = {(row["row"], row["column"]): row for row in csv.DictReader(file)}
    assert cells["linear", "ood"]["mean"] == "25.0" and cells["linear_l2", "ood"]["mean"] == ""
    for figure in written["figures"]:
        assert (tmp_path / "out" / figure["file"]).stat().st_size > 5000


def test_curves_need_their_key_among_the_rows(made: Make, configs: dict, tmp_path: Path) -> None:
    from attnlab.report.figures.draw_figures import draw

    for number, weight in enumerate((0.0, 0.01, 0.1)):
        ortho = configs["linear"]["model"]["ortho"] | {"weight": weight}
        config = configs["linear"] | {"model": configs["linear"]["model"] | {"ortho": ortho}}
        a_run(tmp_path / "runs" / str(number) / "seed0", config, 0.1 * number)
    report = Report(title="t", rows=["model.ortho.weight"], columns={"ood": OOD})
    table = table_of(tmp_path / "runs", report)
    [(path, caption)] = draw(table, Picture(kind="curve", x="model.ortho.weight"), tmp_path / "out")
    assert path.stat().st_size > 5000 and "model.ortho.weight" in caption
    with pytest.raises(TableError, match=r"optim\.lr"):
        draw(table, Picture(kind="curve", x="optim.lr"), tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["experimnt=x"], 2, "nearest: experiment"),
        (["experiment=park2024/table44"], 2, "park2024/table4"),
        (["runs=nowhere/*"], 2, "no run folder there"),
        (["runs=a", "experiment=b"], 2, "expected one of"),
        (["runs=a", "rwos=model"], 2, "nearest: rows"),
        (["runs=a", "logger=wandb"], 2, "wandb_offline"),
        (["runs"], 2, "expected runs=value"),
        ([f"experiment={EXPERIMENT}", "modle=linear"], 2, "model"),
    ],
)
def test_mistakes_get_one_helpful_answer(words: list[str], code: int, said: str, capsys: pytest.CaptureFixture) -> None:
    assert report_main(words) == code
    assert said in capsys.readouterr().err


def test_unknown_columns_and_rows_are_named(made: Make, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (made("linear", 0) / "metrics.csv").write_text("step,name,value\n1,test_curve/accuracy,0.5\n")
    runs = f"runs={tmp_path / 'runs'}"
    for word, text in {
        "columns=test/oood/sequence_accuracy": f"nearest: {OOD}",
        "columns=test_curve/accuracy": "columns=test_curve/accuracy: recorded while training, no result of a run",
        "against=vanila": "no such row",
        "rows=modell": "nearest: model",
        "figure=bars": "nearest: figures",
        "model=linaer": "model=linaer: no run has model=linaer; nearest: linear; linear",
        "model=katharopoulos": "no run has model=katharopoulos; linear",
        "model=linear_transformer": "nearest: linear (linear_transformer); linear",
        "optim.rl=1": "optim.rl=1: no run has such a key; nearest: optim.lr",
        "seed=0,3": "no run has seed=3",
    }.items():
        assert report_main([runs, word]) == 2, word
        assert text in capsys.readouterr().err
    assert report_main([runs, "out=/dev/null/x"]) == 1
    assert "out=<folder>" in capsys.readouterr().err


def test_settings_narrow_any_runs(made: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for model in ("linear", "linear_l2"):
        for seed in (0, 1):
            made(model, seed)
    assert report_main(["runs=runs", "model=linear", "seed=1,0", "figures=bars"]) == 0
    report = read_report(tmp_path / "experiments/reports/runs--model_linear_seed_1_0/report.json")
    assert [(row.name, len(row.cells[0].seeds)) for row in report.rows] == [("linear", 2)]


def test_a_data_set_may_be_named_as_the_task(made: Make, configs: dict, tmp_path: Path) -> None:
    for model, name in (("linear", "cola"), ("linear_l2", "sst2")):
        made(model, 0, config={"task": configs[model]["task"] | {"name": "glue", "dataset": name}})
    for word in ("task.name=sst2", "task.dataset=sst2"):
        assert [run.config["model"]["name"] for run in select_glob(str(tmp_path / "runs"), [word]).runs] == [
            "linear_l2"
        ]
    assert len(select_glob(str(tmp_path / "runs"), ["task.name=glue"]).runs) == 2


def test_broken_folders_are_skipped_by_name(made: Make, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    made("linear", 0)
    for name, text in (("cut", "task: {na"), ("foreign", "a: 1\n"), ("empty", "")):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(text)
    lost = made("linear", 1)
    (lost / "config.yaml").unlink()
    assert len(run_folders(str(tmp_path / "runs"))) == 5
    assert report_main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]) == 0
    printed = capsys.readouterr().out
    assert all(re.search(rf"skipped .*{name}: ", printed) for name in ("cut", "foreign", "empty", "seed1"))


def test_no_torch_for_a_table(made: Make, tmp_path: Path) -> None:
    made("linear", 0)
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    code = f"import sys; from attnlab.report.cli import report_main; assert report_main({words!r}) == 0; "
    code += "heavy = {'torch', 'wandb', 'pytorch_lightning'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_the_report_block_reaches_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from support.small_runs import run_job

    from attnlab.run import train_run

    trained = []
    monkeypatch.setattr(train_run, "train_run", lambda job, *_: (trained.append(job.raw), ({}, False))[1])
    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    assert run_job(config | {"report": {"title": "t", "columns": {"ood": OOD}}}, quiet=True) == 0
    assert trained == [completed(config)]


def test_another_report_in_the_same_folder_leaves_no_picture_of_the_former(made: Make, tmp_path: Path) -> None:
    made("linear", 0)
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert report_main([*words, "figures=bars,by_length"]) == 0
    (tmp_path / "out/mine.png").write_bytes(b"")
    assert report_main([*words, f"columns={OOD}", "figures=bars"]) == 0
    assert {file.name for file in (tmp_path / "out").glob("*.png")} == {"bars.png", "mine.png"}


def test_debug_evaluations_and_damaged_lines_are_noted(made: Make, tmp_path: Path) -> None:
    debug = {"sizes": {"test/ood": 50}, "eval_batches": 2}
    folder = made("linear", 0, debug=debug, counts={"test/ood": 32})
    (folder / "metrics.csv").write_text("step,name,value\n1,train/loss,0.5\n2,train\n")
    table = table_of(tmp_path / "runs", SIMPLE)
    assert "debug: evaluated on 32 of 50 examples of test/ood (train.eval_batches=2)" in notes(table)
    table.runs[0].logged(["train/loss"])
    assert "left out of metrics.csv: scan/linear/tag/seed0 (1 damaged line)" in notes(table)


def test_an_evaluation_says_that_a_run_is_not_finished(made: Make) -> None:
    note = "note: the run is not finished (stopped); these are its weights of step 1,200"
    assert unfinished(made("linear", 0, state="stopped"), 1200) == note
    assert unfinished(made("linear", 1), 1200) == ""


def test_a_key_that_only_newer_runs_record_has_its_default_in_older_ones(made: Make, tmp_path: Path) -> None:
    _, new = made("linear", 0), made("linear", 1)
    config = yaml.safe_load((new / "config.yaml").read_text())
    config["task"]["end_token"] = True
    (new / "config.yaml").write_text(yaml.safe_dump(config))
    first, second = select_glob(str(tmp_path / "runs")).runs
    assert first.config["task"]["end_token"] is second.config["task"]["end_token"] is True
