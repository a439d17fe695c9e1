"""Presets with a report, and published numbers: consistent with each other and with the tasks."""

import itertools
import json
import re
import shlex
from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

import pytest
import yaml
from support.preset_costs import HEADINGS, headings
from support.preset_files import EXPERIMENTS, PILOTS, presets_with_reports, text_of
from support.slow_cases import slow_except
from support.small_runs import ROOT

from attnlab.config.command_line.words import read_override
from attnlab.config.conf_files import task_yaml
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import show
from attnlab.config.report_block import FEWEST, FORMS, Quantity
from attnlab.config.run_identity import run_label
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.learn.metric_units import LOGGED
from attnlab.learn.metrics import METRICS
from attnlab.tasks.glue.data_sets import DATA_SETS

UNITS = ("percent", "perplexity", "million parameters", "steps per second", "ratio")
OF_EVERY_RUN = ("parameters", "seconds", "step_seconds", "steps_per_second", "state_size", "peak_memory_bytes")
CELL_KEYS = {"row", "column", "value", "spread", "text", "source", "unit"}
EXCEPTIONS = {
    ("qin2022/table5_glue", "parameters"): "of the masked models, in table5_pretraining; classifiers have others",
    ("qin2022/figure2_locality", "parameters"): "in table5_pretraining, whose runs these are",
}
"""published columns that a preset does not have, and why"""
OF_SOME_ROWS = {
    "qin2022/figure2_locality": "attention of three of the masked models of table5_pretraining",
}
"""presets that take some rows of a published table, and why"""


PRESETS = presets_with_reports()
PUBLISHED = {file.stem: file for file in sorted((ROOT / "experiments" / "published").glob("*.yaml"))}
every_preset = pytest.mark.parametrize("name", PRESETS)
FIRST = {name.partition("/")[0]: name for name in reversed(PRESETS)}.values()
"""a preset of each paper"""
every_published = pytest.mark.parametrize("paper", PUBLISHED)


@cache
def swept(name: str) -> dict[str, list[Any]]:
    """Values of every key that a preset sweeps."""
    params = text_of(name)["hydra"]["sweeper"]["params"]
    items = [read_override(f"{key}={value}", CONF) for key, value in params.items()]
    return {item.key: list(item.values) for item in items}


@cache
def first_job(name: str) -> JobConfig:
    """The first job of the command that the preset's header names, checked."""
    words = shlex.split(headings(name)["Command"])
    assert words[:2] == ["python", "train.py"] and f"experiment={name}" in words
    inputs = {word.partition("=")[0] for word in words}
    narrowed = [f"{key}={show(values[0])}" for key, values in swept(name).items() if key not in inputs]
    (job,) = check_command([*words[2:], *narrowed]).jobs
    return job


@cache
def points(name: str) -> list[dict[str, Any]]:
    """The swept values of every job; values of a swept section are given key by key."""
    collected = []
    for values in itertools.product(*swept(name).values()):
        point: dict[str, Any] = {}
        for key, value in zip(swept(name), values, strict=True):
            inside = {f"{key}.{part}": item for part, item in value.items()} if isinstance(value, Mapping) else {}
            point |= inside or {key: value}
        collected.append(point)
    return collected


def value_at(name: str, point: Mapping[str, Any], key: str) -> Any:
    """Value of a key of `rows` or `where` in a job: the swept value, else the value in the first job."""
    job = first_job(name).raw
    if key in ("model", "model.name"):
        # a choice may lie in a folder, a name does not
        return str(point.get("model", job["model"]["name"])).rpartition("/")[2]
    if key in ("task", "task.name"):
        task = task_at(name, point)
        return run_label({"task": task}) if key == "task" else task["name"]
    if key in point:
        return point[key]
    result: Any = job
    for part in key.split("."):
        result = result[int(part)] if isinstance(result, list) else result[part]
    return result


def task_at(name: str, point: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a job's task."""
    task = first_job(name).raw["task"]
    if point.get("task", task["name"]) != task["name"]:
        task = {**task_yaml(point["task"], CONF), **text_of(name).get("task", {})}
    return task | {key.removeprefix("task."): value for key, value in point.items() if key.startswith("task.")}


@cache
def columns(name: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Metric and condition of every column."""
    inputs = text_of(name)["report"]["columns"]
    return {
        key: (item, {}) if isinstance(item, str) else (item["metric"], item.get("where", {}))
        for key, item in inputs.items()
    }


@cache
def row_names(name: str) -> set[str]:
    """The names of the rows of a preset's table."""
    report = text_of(name)["report"]
    joined = {
        ", ".join(show(value_at(name, point, key)) for key in report.get("rows", ["model"])) for point in points(name)
    }
    return {report.get("row_names", {}).get(row, row) for row in joined}


@cache
def measured_metrics(task: str) -> set[str]:
    """Metrics of real runs of a task, except metrics of single lengths."""
    folder = ROOT / "experiments" / "measured" / "tasks" / task
    results = [json.loads(file.read_text()) for file in folder.glob("*.json")]
    collected = {metric for result in results for metric in result.get("metrics", {}) if "/length_" not in metric}
    if any(metric.endswith(SEQUENCE_METRICS) for metric in collected):
        # what sequences are judged by was not always all of these
        collected |= {f"{metric.rpartition('/')[0]}/{name}" for metric in collected for name in SEQUENCE_METRICS}
    if task == "scan":
        # its official splits have one test
        collected |= {f"test/{name}" for name in SEQUENCE_METRICS}
    if task == "flip_flop":
        # with longer_tests
        collected |= {metric.replace("/iid/", f"/{part}/") for metric in collected for part in ("twice", "four_times")}
    if task == "sort_of_clevr":
        # its splits with held-out combinations (tests/tasks/test_held_out_combinations.py runs them)
        collected |= {metric.replace("/", f"/{part}/", 1) for metric in collected for part in ("iid", "ood")}
    if task == "glue":
        for data_set in DATA_SETS.values():
            tested = [subset for subset in data_set.sizes if subset.startswith("test")]
            collected |= {f"{subset}/{metric}" for subset in tested for metric in data_set.metrics}
    return collected


def metric_exists(metric: str, task: str) -> bool:
    """Whether a run of the task has it: tested, validated, a column of metrics.csv, or what every run has."""
    name = "train/(loss|ortho|gradient_norm|lr)(_max)?"
    logged = re.fullmatch(rf"{name}|(relative_sd|max)\({name}\)", metric)
    numbers = "query_norm|key_norm|value_cosine|largest_weight|local_weight"
    of_attentions = re.fullmatch(rf"val/((en|de)coder/)?layer_\d+/(cross/)?({numbers})", metric)
    if metric in OF_EVERY_RUN or logged or of_attentions or metric in measured_metrics(task):
        return True
    names = {known.rpartition("/")[2] for known in measured_metrics(task)} & set(METRICS)
    return metric in {f"val/{known}" for known in names}


def test_there_are_presets_and_published_numbers() -> None:
    assert "park2024/table4_scan" in PRESETS and "park2024" in PUBLISHED


@every_preset
def test_a_preset_opens_with_its_claim(name: str) -> None:
    result = headings(name)
    assert list(result) == list(HEADINGS)
    assert all(text.strip() for text in result.values())


def test_a_pilot_has_seeds_and_folders_of_its_own_and_no_hypotheses() -> None:
    for file in (EXPERIMENTS / PILOTS).glob("[!_]*.yaml"):
        name, preset = f"{PILOTS}{file.stem}", text_of(f"{PILOTS}{file.stem}")
        assert f"/experiment/claims/{file.stem}" in yaml.safe_load(file.read_text())["defaults"], name
        assert preset["paths"]["runs"] == f"experiments/runs/pilots/{file.stem}", name
        assert not preset["report"]["hypotheses"] and min(swept(name)["seed"]) >= 901, name


@pytest.mark.slow
@every_preset
def test_all_of_its_sweep_is_checked(name: str) -> None:
    """Every job but for the seeds."""
    words = shlex.split(headings(name)["Command"])[2:]
    seeds = [f"seed={swept(name)['seed'][0]}"] if "seed" in swept(name) else []
    command = check_command([*words, *seeds])
    assert command.multirun
    assert len(command.jobs) == len(points(name)) // max(1, len(swept(name).get("seed", [])))


@pytest.mark.xdist_group("presets")
@pytest.mark.parametrize("name", slow_except(PRESETS, FIRST))
def test_a_report_is_made_of_its_jobs(name: str) -> None:
    """The command passes the check; rows, columns, averages, figures and published cells belong to its jobs."""
    assert first_job(name).report["title"]
    assert row_names(name)
    check_columns(name)
    check_averages(name)
    check_figures(name)
    check_hypotheses(name)
    check_success(name)
    check_published_cells(name)


def check_columns(name: str) -> None:
    """Every column is one of some job, and its metric one that jobs of that task have."""
    for column, (metric, where) in columns(name).items():
        tasks = {
            value_at(name, point, "task.name")
            for point in points(name)
            if all(value_at(name, point, key) == value for key, value in where.items())
        }
        assert tasks, f"{column}: no job has {where}"
        for task in tasks:
            assert metric_exists(metric, task), f"{column}: {metric} is no metric of {task}"


def check_averages(name: str) -> None:
    """Averages and best values are over columns and swept keys of the preset."""
    report = text_of(name)["report"]
    if report.get("average"):
        assert set(report["average"]["of"]) <= set(columns(name)) and report["average"]["name"] not in columns(name)
    assert set(report.get("best_over", [])) <= set(swept(name))
    assert not set(report.get("best_over", [])) & set(report.get("rows", ["model"]))


def check_figures(name: str) -> None:
    """Figures show rows, metrics and quantities that exist."""
    report = text_of(name)["report"]
    for figure in report.get("figures", [{"kind": "bars"}]):
        match figure["kind"]:
            case "curve":
                assert figure["x"] in report.get("rows", ["model"])
                assert len({value_at(name, point, figure["x"]) for point in points(name)}) > 1
            case "scatter":
                assert {figure["x"], figure.get("metric", figure["x"])} <= columns(name).keys()
            case "by_length":
                task = first_job(name).raw["task"]["name"]
                assert metric_exists(f"{figure['subset']}/{figure['metric']}", task)
            case "diagnosis":
                assert figure["quantity"] in get_args(Quantity)
                assert figure.get("metric") in (None, *columns(name))
            case "training":
                curve = ("test_curve/",) if first_job(name).typed.train.test_curve_every else ()
                assert figure.get("metric", "train/loss").startswith(("train/", "val/", *curve))
            case "time_to_success":
                assert report["success"]["validation"].startswith(LOGGED)
            case kind:
                check_claim_figure(kind, name, figure.get("metric"))


def check_claim_figure(kind: str, name: str, column: str | None) -> None:
    """Figures of claims have the hypotheses, rows and metrics that they draw."""
    shown = [columns(name)[column]] if column else columns(name).values()
    metrics = [metric for metric, _ in shown]
    assert {
        "bars": True,
        "forest": bool(text_of(name)["report"].get("hypotheses")),
        "pairs": len(row_names(name)) > 1,
        "iid_ood": any("/ood/" in metric for metric in metrics),
        "errors": any(metric.endswith("/sequence_accuracy") for metric in metrics),
        "state_size": True,
    }[kind]


def check_success(name: str) -> None:
    """A threshold is of a column, its validation is one that runs have, and the line above says why."""
    success = text_of(name)["report"].get("success")
    if success is None:
        return
    assert success["column"] in columns(name)
    task, metric = first_job(name).raw["task"]["name"], success.get("validation")
    # runs validate what they test, by kind of question too
    assert metric is None or metric_exists(metric, task) or metric_exists(metric.replace("val/", "test/"), task)
    above = (EXPERIMENTS / f"{name}.yaml").read_text().partition("  success:")[0].rstrip().splitlines()[-1]
    assert "success:" not in (EXPERIMENTS / f"{name}.yaml").read_text() or above.startswith("  # ")


def check_hypotheses(name: str) -> None:
    """Rows and columns of hypotheses, and the row of interest, are the preset's."""
    report = text_of(name)["report"]
    average = {report["average"]["name"]} if report.get("average") else set()
    requested = report.get("hypotheses", [])
    named = [row for item in requested for row in (item["row"], next(item[key] for key in FORMS if key in item))]
    named += [report["highlight"]] if report.get("highlight") else []
    assert set(named) <= set(row_names(name))
    differences = [item for item in requested if "than" in item]
    of_columns = {item[key] for item in requested for key in ("column", "given") if key in item}
    assert of_columns <= columns(name).keys() | average
    if differences and name.startswith("claims/"):
        assert len(swept(name)["seed"]) >= FEWEST


def check_published_cells(name: str) -> None:
    """Row and column of every published cell are among the preset's, under the same names."""
    report = text_of(name)["report"]
    if report.get("published") is None:
        return
    paper, _, table = report["published"].partition("/")
    assert paper in PUBLISHED, f"no file experiments/published/{paper}.yaml"
    cells = yaml.safe_load(PUBLISHED[paper].read_text())["tables"][table]["cells"]
    average = {report["average"]["name"]} if report.get("average") else set()
    rows, names = row_names(name), columns(name).keys() | average
    lost = {cell["column"] for cell in cells if cell["column"] not in names}
    assert lost == {column for preset, column in EXCEPTIONS if preset == name}
    others = [] if name in OF_SOME_ROWS else [cell for cell in cells if cell["row"] not in rows]
    assert not others


@every_published
def test_published_numbers_are_well_formed(paper: str) -> None:
    text = PUBLISHED[paper].read_text()
    assert "RECALL" not in text
    file = yaml.safe_load(text)
    assert file.keys() == {"paper", "tables"} and isinstance(file["paper"], str) and file["tables"]
    for name, table in file["tables"].items():
        assert re.fullmatch(r"[a-z0-9_]+", name)
        assert table.keys() == {"title", "unit", "trials", "source", "cells"}, name
        assert table["unit"] in UNITS and isinstance(table["title"], str) and isinstance(table["source"], str)
        assert table["trials"] is None or table["trials"] > 0
        assert table["cells"]
        counts = Counter((cell["row"], cell["column"]) for cell in table["cells"])
        assert max(counts.values()) == 1, f"{name}: {counts.most_common(1)} comes twice"
        for cell in table["cells"]:
            check_cell(cell, table["unit"])


def check_cell(cell: Mapping[str, Any], unit: str) -> None:
    assert {"row", "column", "value"} <= cell.keys() <= CELL_KEYS, cell
    assert all(isinstance(cell[key], str) and cell[key] for key in cell.keys() - {"value", "spread"}), cell
    unit = cell.get("unit", unit)
    assert unit in UNITS, cell
    if cell["value"] is None:
        assert cell.get("text") and "spread" not in cell, f"{cell}: neither a number nor words"
        return
    assert isinstance(cell["value"], (int, float)) and not isinstance(cell["value"], bool), cell
    assert 0 <= cell["value"] <= (100 if unit == "percent" else float("inf")), cell
    assert cell.get("spread", 0) >= 0, cell


def test_a_choice_by_test_data_is_said() -> None:
    """Csordas et al. chose among their variants by the test set; every table at their settings says so."""
    collected = [name for name in PRESETS if "Csordas et al. 2021" in (text_of(name)["report"].get("protocol") or "")]
    assert {f"park2024/table{n}" for n in ("4_scan", "5_add_or_sub", "6_place_value", "7_pcfg")} <= set(collected)
    for name in collected:
        assert "best of up to eight variants by test mean" in text_of(name)["report"]["protocol"], name


def test_no_exception_is_out_of_date() -> None:
    assert all(preset in PRESETS and reason for (preset, _), reason in EXCEPTIONS.items())
    assert OF_SOME_ROWS.keys() <= set(PRESETS)


def test_small_variants_have_a_protocol_of_their_own() -> None:
    """Small variants are never compared with published numbers."""
    for name in (name for name in PRESETS if name.endswith("_small")):
        assert text_of(name)["report"].get("published") is None and text_of(name)["report"]["protocol"], name
