"""Shortcuts in reports: rows of every table, and warnings about thresholds that one reaches."""

import copy
import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.small_runs import SMALL_CLEVR, SMALL_SCAN
from support.written_runs import IID, OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Average, Report, Success
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.failures.count_failures import count_failures
from attnlab.report.page.cli import page_main
from attnlab.report.report_record import read_report
from attnlab.report.runs.read_runs import ReportRun, look
from attnlab.report.table_types import Table
from attnlab.report.text_tables import shortcut_rows

FREQUENT, COPY = "most frequent answer", "copying the input"
FREQUENT_ROW, COPY_ROW = f"shortcut: {FREQUENT}", f"shortcut: {COPY}"
SCORES = {IID: {FREQUENT: 0.1, COPY: 0.307}, OOD: {FREQUENT: 0.2505, COPY: 0.0}}
WARNING = "the threshold is not above a shortcut"


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


def written(folder: Path, config: dict[str, Any], seed: int = 0, **more: Any) -> ReportRun:
    return look(a_run(folder / f"{config['model']['name']}{seed}", copy.deepcopy(config) | {"seed": seed}, **more))


def of(*runs: ReportRun, columns: Mapping[str, str] | None = None, **more: Any) -> Table:
    return make_table(Report(title="t", columns=dict(columns or {"iid": IID, "ood": OOD}), **more), runs)


def test_a_table_has_a_row_for_the_best_shortcut_of_each_column(tmp_path: Path, config: dict[str, Any]) -> None:
    runs = [written(tmp_path, config, seed, shortcuts=SCORES) for seed in (0, 1)]
    assert shortcut_rows(of(*runs).each()) == {
        COPY_ROW: {"iid": "30.7", "ood": "0.0"},
        FREQUENT_ROW: {"iid": "10.0", "ood": "25.1"},
    }
    # the best of no column is in report.json only
    assert [*shortcut_rows(of(*runs, columns={"iid": IID}).each())] == [COPY_ROW]
    average = of(*runs, average=Average(name="mean", of=["iid", "ood"]))
    assert shortcut_rows(average.each())["shortcut: best of each column"] == {"mean": "27.9"}


def test_runs_without_shortcuts_say_nothing(tmp_path: Path, config: dict[str, Any]) -> None:
    old, new = written(tmp_path, config), written(tmp_path, config, 1, shortcuts=SCORES)
    assert shortcut_rows(of(old).each()) == {} and shortcut_rows(of(old, new).each()) == shortcut_rows(of(new).each())
    impossible = written(tmp_path, config, 2, shortcuts={IID: {FREQUENT: 0.1, COPY: 3.0}, OOD: {}})
    assert shortcut_rows(of(impossible).each()) == {FREQUENT_ROW: {"iid": "10.0"}}


@pytest.mark.parametrize("shortcuts", [{IID: 0.5}, {IID: {FREQUENT: "much"}}, []])
def test_damaged_shortcuts_make_a_result_unreadable(tmp_path: Path, config: dict[str, Any], shortcuts: Any) -> None:
    run = written(tmp_path, config, shortcuts=shortcuts)
    assert run.state == "unreadable" and "shortcuts" in run.reason


def test_rows_on_different_data_show_a_range(tmp_path: Path, config: dict[str, Any]) -> None:
    other = config | {"model": config["model"] | {"name": "other"}}
    runs = [
        written(tmp_path, config, shortcuts={IID: {FREQUENT: 0.1}}),
        written(tmp_path, other, shortcuts={IID: {FREQUENT: 0.3}}),
    ]
    assert shortcut_rows(of(*runs, columns={"iid": IID}).each()) == {FREQUENT_ROW: {"iid": "10.0 to 30.0"}}


def test_lower_is_better_of_perplexities(tmp_path: Path, config: dict[str, Any]) -> None:
    metric = "test/token_perplexity"
    run = written(tmp_path, config, metrics={metric: 30.0}, shortcuts={metric: {"one": 1000.0, "two": 900.0}})
    table = of(run, columns={"ppl": metric}, success=Success(column="ppl", at_most=950))
    assert [*shortcut_rows(table.each())] == ["shortcut: two"]
    result = count_failures(table)
    assert result and any(WARNING in note and note.endswith(f": two has 900.00 in {metric}") for note in result.notes)


def test_the_published_rule_has_the_shortcuts_of_its_test_set(tmp_path: Path) -> None:
    config = compose_config([*SMALL_CLEVR, "model=linear"])
    metric = "test_paper_rule/unary/accuracy"
    run = written(tmp_path, config, metrics={metric: 0.6}, shortcuts={"test/unary/accuracy": {FREQUENT: 0.492}})
    assert shortcut_rows(of(run, columns={"unary": metric}).each()) == {FREQUENT_ROW: {"unary": "49.2"}}


@pytest.mark.parametrize(("threshold", "warned"), [(20, True), (30.7, True), (31, False)])
def test_a_threshold_that_a_shortcut_reaches_is_named(
    tmp_path: Path, config: dict[str, Any], threshold: float, warned: bool
) -> None:
    runs = [written(tmp_path, config, seed, shortcuts=SCORES) for seed in (0, 1)]
    result = count_failures(of(*runs, success=Success(column="iid", at_least=threshold)))
    assert result and [note for note in result.notes if WARNING in note] == (
        [f"{WARNING}, so that runs that have learned nothing count as successful: {COPY} has 30.7 % in {IID}"]
        if warned
        else []
    )


def test_a_shortcut_may_reach_the_threshold_in_validation_alone(tmp_path: Path, config: dict[str, Any]) -> None:
    val = "val/sequence_accuracy"
    run = written(tmp_path, config, shortcuts=SCORES | {val: {COPY: 0.6}})
    result = count_failures(of(run, success=Success(column="iid", at_least=50, validation=val)))
    assert result and any(note.endswith(f": {COPY} has 60.0 % in {val}") for note in result.notes)


def test_every_form_of_a_report_has_them(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        written(tmp_path / "runs", config, seed, shortcuts=SCORES)
    assert report_main(["runs=runs", f"columns={IID},{OOD}", "out=out/t"]) == 0
    shown = capsys.readouterr().out
    assert COPY_ROW in shown and "30.7" in shown
    table = (tmp_path / "out/t/table.md").read_text()
    assert f"| shortcut: {COPY} | 30.7 | 0.0 |" in table and f"| shortcut: {FREQUENT} | 10.0 | 25.1 |" in table
    assert f"shortcut: {COPY} & 30.7 & 0.0 \\\\" in (tmp_path / "out/t/table.tex").read_text()
    lines = list(csv.DictReader((tmp_path / "out/t/table.csv").open()))
    assert [(line["shortcut_name"], float(line["shortcut"])) for line in lines] == [(COPY, 30.7), (FREQUENT, 25.05)]
    report = read_report(tmp_path / "out/t/report.json")
    assert shortcut_rows(report.each())[COPY_ROW] == {"iid": "30.7", "ood": "0.0"}
    assert report.rows[0].cells[0].shortcuts == [[COPY, 30.7], [FREQUENT, 10.0]]
    assert page_main(["measured=out", "reports=out", "out=page.html"]) == 0
    assert COPY_ROW in (tmp_path / "page.html").read_text()
    # one column: the first table of the page is left out
    assert report_main(["runs=runs", f"columns={IID}", "out=one/t"]) == 0
    assert page_main(["measured=one", "reports=one", "out=one.html"]) == 0
    assert COPY_ROW in (tmp_path / "one.html").read_text()


def test_a_report_of_another_program_with_odd_shortcuts_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    written(tmp_path / "runs", config, shortcuts=SCORES)
    assert report_main([f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]) == 0
    file = tmp_path / "out/report.json"
    content = json.loads(file.read_text())
    content["rows"][0]["cells"][0]["shortcuts"] = {COPY: "much"}
    file.write_text(json.dumps(content))
    with pytest.raises(Exception, match="shortcuts"):
        read_report(file)
