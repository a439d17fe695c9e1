"""Units of metrics: every printer writes the same text for the same metric, in the published unit."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_runs import ROOT, SMALL_SCAN, config_of
from support.written_runs import a_run

from attnlab.config.job_config import compose_config, job_config
from attnlab.config.report_block import Average, Report
from attnlab.config.run_identity import run_folder
from attnlab.config.shipped_files import PUBLISHED
from attnlab.launch.console_summary import print_run, print_sweep
from attnlab.launch.evaluate_cli import _show
from attnlab.learn.metric_units import OF_RUNS, length_lines, lower_is_better, number, problem, same_unit, text, unit_of
from attnlab.learn.metrics import METRICS, improves
from attnlab.report.build_table import columns_of, make_table
from attnlab.report.page.cli import MINUS, templates
from attnlab.report.published_numbers import Published, Value, published_table
from attnlab.report.runs.select_runs import select_glob
from attnlab.report.table_types import TableError
from attnlab.report.table_writers import latex, markdown, record
from attnlab.report.text_tables import cell_by_cell

SHOWN = {
    "accuracy": (0.4567, "45.7", "%", False),
    "sequence_accuracy": (0.4567, "45.7", "%", False),
    "sequence_accuracy_oracle_end": (1.0, "100.0", "%", False),
    "f1": (0.8836, "88.4", "%", False),
    "matthews_correlation": (-0.3863, "-38.6", "%", False),
    "pearson": (0.9, "90.0", "%", False),
    "spearman": (-0.0001, "0.0", "%", False),
    "token_perplexity": (31.014, "31.01", "", True),
    "masked_token_perplexity": (4.984, "4.98", "", True),
    "word_perplexity": (123456.7, "123,457", "", True),
    "parameters": (2_500_000, "2.50", "million", True),
    "seconds": (119.96, "120.0", "s", True),
    "step_seconds": (0.0856, "85.6", "ms", True),
    "steps_per_second": (12.5037, "12.50", "steps/s", False),
    "state_size": (512, "512", "", True),
    "peak_memory_bytes": (1_234_567_890, "1,235", "MB", True),
}
"""name: as it is recorded, as it is shown, its sign, and whether the smaller one is the better one"""
TESTED = [name for name in SHOWN if name not in OF_RUNS]


def metrics_of_tasks() -> Iterator[str]:
    """Every name that a TaskSpec of a task gives in `metrics=(...)`."""
    for file in (ROOT / "src/attnlab/tasks").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "metrics" and isinstance(node.value, ast.Tuple):
                yield from (item.value for item in node.value.elts)


def test_every_metric_and_number_of_a_run_has_a_unit() -> None:
    assert set(metrics_of_tasks()) <= set(METRICS)
    others = {*METRICS, *OF_RUNS} - SHOWN.keys()
    assert all(unit_of(name).name == "percent" and "accuracy" in name for name in others), "how are they shown?"
    for name, (value, shown, sign, lower) in SHOWN.items():
        of = name if name in OF_RUNS else f"test/ood/{name}"
        assert text(of, value) == f"{shown} {sign}".strip()
        assert lower_is_better(of) == lower and not problem(of, value)
        assert improves(of, 1.0, 2.0) == lower


@pytest.mark.parametrize("name", TESTED)
def test_every_printer_writes_a_metric_alike(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    value, shown, sign, _ = SHOWN[name]
    metric, alone = f"test/{name}", f"{shown} {sign}".strip()
    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    a_run(run_folder(config), config, metrics={metric: value}, data={}, steps_per_second=2.0)
    table = make_table(Report(title="t", columns={"c": metric}), select_glob(str(tmp_path / "runs")).runs)
    cell = table.cells["linear"]["c"]

    report = record(table, experiment="e")
    assert cell_by_cell(report).rows[0][2:] == [f"{shown} (1)", shown, f"{shown} (seed 0)", f"{shown} (seed 0)"]
    assert f"| linear | {shown} (1) |" in markdown(report) and f"linear & {shown} (1)" in latex(report)
    page = templates().get_template("tables.html").module.every_cell({"id": "e", "report": report})
    assert f">{shown.replace('-', MINUS)} (1)<" in re.sub(r"</?a\b[^>]*>", "", page)
    print_run(job_config(config), json.loads((run_folder(config) / "result.json").read_text()), shown=True)
    printed = capsys.readouterr().out
    assert [line.split()[1:] for line in printed.splitlines() if line.split()[:1] == [metric]] == [alone.split()]
    assert "60.0 s  (2.00 steps/s)" in printed
    assert print_sweep([job_config(config)], ["seed=0"]) == 0 and alone in capsys.readouterr().out
    _show({metric: value})
    assert capsys.readouterr().out.splitlines()[0].split() == [metric, *alone.split()]
    assert number(cell.mean, cell.column.unit) == shown


def test_published_numbers_are_in_the_unit_of_their_columns() -> None:
    """Every preset with published numbers: a factor of a hundred between two units would be a wrong difference."""
    compared = 0
    for file in sorted((ROOT / "conf/experiment").rglob("*.yaml")):
        name = file.relative_to(ROOT / "conf/experiment").with_suffix("").as_posix()
        if file.name.startswith("_") or "\n  published: " not in file.read_text():
            continue
        block = compose_config([f"experiment={name}"])["report"]
        table = published_table(block["published"]) if block["published"] else None
        columns = {column.name: column for column in columns_of(Report(title="t", columns=block["columns"]))}
        for (_, column), value in table.cells.items() if table else ():
            if column in columns and value.value is not None:
                assert same_unit(columns[column].unit, value.unit or table.unit), (name, column)
                if columns[column].unit == "percent":
                    assert value.value == 0 or value.value > 1, "a share, and no percentage?"
                compared += 1
    assert compared > 100 and PUBLISHED.is_dir()


def test_another_unit_is_no_comparison(tmp_path: Path) -> None:
    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    a_run(run_folder(config), config, metrics={"test/f1": 0.88, "test/word_perplexity": 5.0})
    runs = select_glob(str(tmp_path / "runs")).runs
    known = {("linear", "c"): Value(0.87, None, None, "x")}
    for unit, metric in (("ratio", "test/f1"), ("percent", "test/word_perplexity")):
        with pytest.raises(TableError, match=f"gives {unit}"):
            make_table(
                Report(title="t", columns={"c": metric}),
                runs,
                Published(table="p/t", unit=unit, cells=known),
            )
    words = {("linear", "c"): Value(None, None, "fails", "x")}
    make_table(
        Report(title="t", columns={"c": "test/f1"}),
        runs,
        Published(table="p/t", unit="ratio", cells=words),
    )


def test_averages_are_of_one_unit(tmp_path: Path) -> None:
    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    metrics = {
        "test/f1": 0.8,
        "test/matthews_correlation": 0.4,
        "test/word_perplexity": 5.0,
        "val/word_perplexity": 7.0,
    }
    a_run(run_folder(config), config, metrics=metrics, selection={"rule": "last_step", "step": 7} | metrics)
    runs = select_glob(str(tmp_path / "runs")).runs

    def average(*names: str) -> Report:
        return Report(title="t", columns={name: name for name in names}, average=Average(name="mean", of=list(names)))

    table = make_table(average("test/f1", "test/matthews_correlation"), runs)
    assert table.cells["linear"]["mean"].mean == pytest.approx(60.0)
    assert record(table, experiment="e").columns[-1].metric == "mean of test/f1, test/matthews_correlation"
    both = make_table(average("test/word_perplexity", "val/word_perplexity"), runs).cells["linear"]["mean"]
    assert (both.mean, both.column.unit) == (6.0, "word perplexity") and lower_is_better(both.column.metric)
    with pytest.raises(TableError, match="no mean in common"):
        make_table(average("test/f1", "test/word_perplexity"), runs)


def test_pictures_hold_negative_correlations_and_the_last_range_of_lengths(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    from attnlab.report.figures.bars import draw_bars
    from attnlab.report.figures.lines_and_dots import values_by_length

    config = config_of(tmp_path, *SMALL_SCAN, "model=linear")
    metrics = {"test/matthews_correlation": -0.3, "test/length_0_499/f1": 0.5, "test/length_500_up/f1": 0.2}
    a_run(run_folder(config), config, metrics=metrics)
    runs = select_glob(str(tmp_path / "runs")).runs
    table = make_table(Report(title="t", columns={"c": "test/matthews_correlation"}), runs)
    axis = Figure().subplots()
    draw_bars(axis, table, table.columns[0])
    assert axis.get_xlim() == (-32.0, 102.0)
    assert values_by_length(table, "test", "f1") == ({"linear": {0: [50.0], 500: [20.0]}}, 0)


def test_main_metrics_by_length_are_lines_of_a_few_lengths() -> None:
    few = {
        "test/iid/length_64/accuracy": 0.5,
        "test/iid/length_500_up/accuracy": 0.25,
        "test/ood/length_3/accuracy": 0.1,
    }
    many = {f"test/ood/length_{n}/accuracy": n / 100 for n in range(10, 60)}
    named = {"test/iid/accuracy": 0.4, "test/ood/accuracy": 0.3, "val/accuracy": 0.9, "val/length_1/accuracy": 0.9}
    assert length_lines({**named, **few}) == ["test/iid/accuracy by length: 64: 50.0 %, 500_up: 25.0 %"]
    (line,) = length_lines({**named, **many})
    assert line.startswith("test/ood/accuracy by length (8 of 50 lengths): 10: 10.0 %, 17: 17.0 %, ")
    assert line.endswith(" 52: 52.0 %, 59: 59.0 %")
    assert length_lines({}) == length_lines(named) == []


def test_numbers_are_seen_on_their_side_of_a_bound() -> None:
    texts = [number(value, "percent", signed=True, bounds=[2.0, 3.0]) for value in (1.962, 2.03, 2.0, 2.5, 3.004, 3.0)]
    assert texts == ["+1.96", "+2.03", "+2.0", "+2.5", "+3.004", "+3.0"]
    assert number(0.03, "percent", bounds=[0.0]) == "0.03" and number(0.03, "percent") == "0.0"
