"""Extreme numbers: every output of report.py and the page is made and names them."""

import csv
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from support.slow_cases import slow_except
from support.small_runs import SMALL_SCAN
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.learn.metric_units import number, text
from attnlab.report.cli import report_main
from attnlab.report.diagnose.cli import diagnose_main
from attnlab.report.page.cli import page_main

PERPLEXITY, ACCURACY = "test/word_perplexity", "test/accuracy"
EXTREMES = {
    "1e308": 1e308,
    "-1e308": -1e308,
    "inf": math.inf,
    "nan": math.nan,
    "5e-324": 5e-324,
    "10**400": 10**400,
}
COLUMNS = f"columns={PERPLEXITY},{ACCURACY},seconds,parameters,peak_memory_bytes,steps_per_second,state_size"
COUNTED = ("seconds", "parameters", "peak_memory_bytes", "steps_per_second", "state_size")


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    return {name: compose_config([*SMALL_SCAN, f"model={name}"]) for name in ("linear", "vanilla")}


def write_runs(folder: Path, configs: dict[str, dict[str, Any]], value: float) -> None:
    """Two models of six seeds; two seeds of the first one have the value everywhere."""
    for model, seed in itertools.product(configs, range(6)):
        wrong = model == "linear" and seed > 3
        metrics = {PERPLEXITY: 5.0 + seed, ACCURACY: 0.1 * seed, "test/length_3/accuracy": 0.2}
        more = {name: value if wrong else 1.0 + seed for name in COUNTED}
        metrics = dict.fromkeys(metrics, value) if wrong else metrics
        run = a_run(folder / "scan" / model / "tag" / f"seed{seed}", configs[model] | {"seed": seed}, None)
        result = json.loads((run / "result.json").read_text()) | {"metrics": metrics} | more
        (run / "result.json").write_text(json.dumps(result))
        steps = range(1, 40)
        rows = [f"{step},{name},{value if wrong and step % 2 else 1 / step}" for step in steps
                for name in ("train/loss", "train/gradient_norm")]  # fmt: skip
        (run / "metrics.csv").write_text("\n".join(["step,name,value", *rows]) + "\n")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", slow_except(EXTREMES, ["nan", "10**400"]))
def test_every_output_is_made(
    name: str, tmp_path: Path, configs: dict[str, Any], capsys: pytest.CaptureFixture
) -> None:
    value = EXTREMES[name]
    write_runs(tmp_path / "runs", configs, value)
    out = tmp_path / "reports" / "x"
    figures = "figures=bars,by_length,training"
    assert report_main([f"runs={tmp_path / 'runs'}", COLUMNS, figures, f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "no picture" not in printed

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    report = json.loads((out / "report.json").read_text(), parse_constant=refuse)
    assert len(report["figures"]) == 3
    cells = {(row["name"], cell["column"]): cell for row in report["rows"] for cell in row["cells"]}
    perplexity = next(cell for (row, column), cell in cells.items() if row == "linear" and "perplexity" in column)
    named = value != 5e-324
    assert perplexity["n"] == (4 if named else 6)
    assert all(math.isfinite(cell["mean"]) and math.isfinite(cell["sd"]) for cell in cells.values())
    if named:
        assert perplexity["mean"] == 6.5 and any("seeds 4, 5" in line for line in report["problems"])
        reasons = {seed["reason"] for seed in perplexity["seeds"] if seed["value"] is None}
        assert len(reasons) == 1 and re.search("not finite|too large|less than 0", reasons.pop())
        assert "without 2 whose time is not known" in printed
    for file in ("table.md", "table.tex", "seeds.csv", "table.csv"):
        assert max(map(len, re.split(r"[\n|&,]", (out / file).read_text()))) < 400, f"{file} is absurdly wide"
    with (out / "seeds.csv").open() as lines:
        assert sum(bool(row["value"]) for row in csv.DictReader(lines)) == len(cells) * 6 - (14 if named else 0)
    assert page_main([f"measured={out}", f"reports={out}", f"out={tmp_path / 'page.html'}"]) == 0
    page = re.sub("<style>.*?</style>", "", (tmp_path / "page.html").read_text(), flags=re.DOTALL)
    assert max(map(len, re.findall(r">([^<]*)<", page))) < 1000


def test_a_report_without_any_number_is_made(
    tmp_path: Path, configs: dict[str, Any], capsys: pytest.CaptureFixture
) -> None:
    """Every run has diverged: a comparison has nothing to start from."""
    a_run(tmp_path / "runs" / "scan" / "linear" / "tag" / "seed0", configs["linear"], math.nan)
    out = tmp_path / "reports" / "x"
    assert report_main([f"runs={tmp_path / 'runs'}", "columns=test/ood/sequence_accuracy", f"out={out}"]) == 0
    assert "not finite" in capsys.readouterr().out
    assert page_main([f"measured={out}", f"reports={out}", f"out={tmp_path / 'page.html'}"]) == 0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", slow_except(EXTREMES, ["nan", "10**400"]))
def test_gradients_of_any_size_are_drawn(name: str, tmp_path: Path, configs: dict[str, Any]) -> None:
    write_runs(tmp_path / "runs", configs, EXTREMES[name])
    folder = tmp_path / "runs" / "scan" / "linear" / "tag" / "seed5"
    assert diagnose_main([f"diagnose={folder}", "quantities=gradients", f"out={tmp_path / 'out'}"]) == 0


@pytest.mark.parametrize("name", slow_except(EXTREMES, ["nan", "10**400"]))
def test_a_report_of_anybody_is_shown(name: str, tmp_path: Path, configs: dict[str, Any]) -> None:
    """The page reads any report.json, written by any program."""
    value = EXTREMES[name]
    write_runs(tmp_path / "runs", configs, 0.5)
    out = tmp_path / "reports" / "x"
    assert report_main([f"runs={tmp_path / 'runs'}", COLUMNS, "figures=bars", f"out={out}"]) == 0
    report = json.loads((out / "report.json").read_text())
    for cell in (cell for row in report["rows"] for cell in row["cells"]):
        cell |= dict.fromkeys(("mean", "sd", "difference", "difference_in_sd"), value)
        # bimodal: of older versions
        cell |= {"best": [1, value], "worst": [0, value], "bimodal": True}
        cell |= {"published": {"value": value, "spread": value, "text": ""}}
        cell["seeds"] = [seed | {"value": value} for seed in cell["seeds"]]
    for item in report["comparisons"]:
        item |= {"difference": value, "low": value, "high": value}
    report["origin"]["seconds"] = value
    numbers = dict.fromkeys(("low", "high", "mean", "successful_mean", "median", "median_low", "median_high"), value)
    tests = {key: {"p": value, "corrected": value} for key in ("fisher", "log_rank")}
    failing = {"row": report["rows"][0]["name"], "failed": 1, "n": 2, "validated": 2} | numbers | tests
    column = report["columns"][0]["name"]
    report["success"] = {"column": column, "unit": "percent", "at_least": value, "validation": "v", "rows": [failing]}
    (out / "report.json").write_text(json.dumps(report))
    assert page_main([f"measured={out}", f"reports={out}", f"out={tmp_path / 'page.html'}"]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Steps to the first v of at least" in page
    assert not re.search(r"\d{40}", re.sub('base64,[^"]*', "", page))


def test_numbers_keep_their_width() -> None:
    assert [number(value, "percent") for value in (1e302, -1e302, 5e-324)] == ["1.00e+302", "-1.00e+302", "0.0"]
    assert [number(value, "perplexity") for value in (math.nan, -math.inf, 10**400)] == ["not finite"] * 3
    assert [number(value, "million parameters") for value in (0.021376, 0.0, 155.99)] == ["0.0214", "0.00", "155.99"]
    assert text("test/accuracy", 1e308) == "1e+308 (not in [0, 1])"
    assert text("test/accuracy", math.nan) == "nan (not finite)"
    assert text("test/pearson", -1.5) == "-1.5 (not in [-1, 1])"
    assert text("test/word_perplexity", 1e308) == "1e+308 (too large to be averaged)"
