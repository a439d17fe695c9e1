"""Names and reasons in run folders may be a stranger's: tables show them as text, not as formulas or HTML."""

import copy
import csv
from pathlib import Path

import pytest
from support.small_runs import SMALL_SCAN
from support.written_runs import OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.problem import ConfigError
from attnlab.config.report_block import Report
from attnlab.config.sweep import check_command
from attnlab.config.validation.report_names import require_known_names
from attnlab.plots.csv_text import csv_cell
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.table_writers import latex, markdown, record

FORMULA = "=1+1<script>alert(1)</script>|x\ny![a](http://b/c.png)"


def test_names_and_reasons_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose_config([*SMALL_SCAN, "model=linear"])
    for seed, state in enumerate(("finished", "finished", "failed")):
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": FORMULA}}
        a_run(
            tmp_path / f"runs/task/model/tag/seed{seed}",
            changed,
            -0.1,
            state,
            status={"reason": "@x <img src=y> a < b"},
        )
    monkeypatch.chdir(tmp_path)
    assert report_main(["runs=runs", f"columns={OOD}", "rows=model", "out=out", "figures=bars"]) == 0
    text = (tmp_path / "out/table.md").read_text()
    assert "<script" not in text and "<img" not in text and "&lt;script>" in text and "&lt;img" in text
    assert "](" not in text and "![a]" in text
    assert all(line.count("|") > 2 for line in text.splitlines() if line.startswith("|"))
    with (tmp_path / "out/seeds.csv").open(newline="") as file:
        seeds = list(csv.DictReader(file))
    assert {line["row"] for line in seeds} == {"'" + FORMULA} and "'@x" in seeds[2]["reason"]
    cells = [value for line in seeds for value in line.values()]
    assert not [value for value in cells if value.startswith(("=", "+", "@"))]


def test_a_title_is_one_line() -> None:
    table = make_table(Report(title="two\n\\input{x}", protocol="a\nb", columns={"ood": OOD}), [])
    report = record(table, experiment="e", notes=["c\nd"])
    assert latex(report).startswith("% two \\input{x}; a b\n\\begin{tabular}")
    assert markdown(report).startswith("# two \\input{x}\n\nProtocol: a b.\n")


@pytest.mark.parametrize("value", [-0.1, "-0.1", "+3", "-inf", "1e-5", None, 7, "linear", "a=b", ""])
def test_numbers_and_other_text_stay(value: object) -> None:
    assert csv_cell(value) is value


@pytest.mark.parametrize("value", ["=1", "+a", "-b", "@c", "\t=d", "\r"])
def test_text_that_a_spreadsheet_computes(value: str) -> None:
    assert csv_cell(value) == f"'{value}"


BLOCK = {"title": "t", "columns": {"ood": OOD, "iid": "test/iid/sequence_accuracy"}}


@pytest.mark.parametrize(
    ("average", "said"),
    [
        ({"name": "mean", "of": ["ood", "mean"]}, "report.average.of: no other column mean; columns: ood, iid"),
        ({"name": "ood", "of": ["ood", "iid"]}, "report.average.of: no other column ood"),
        ({"name": "mean", "of": ["odd"]}, "nearest: ood"),
        ({"name": "mean", "of": ["ood", "ood"]}, "a column is named twice"),
        ({"name": "mean", "of": []}, "report.average.of=[]: expected some of the columns ood, iid"),
    ],
)
def test_an_average_is_of_other_columns(average: dict, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("[", r"\[")):
        require_known_names(BLOCK | {"average": average}, [], [])


def test_keys_of_rows_that_no_run_has_are_refused() -> None:
    config = {"model": {"name": "linear"}, "optim": {"lr": 0.1}}
    for block in ({"rows": ["model", "optim.lrr"]}, {"best_over": ["optim.lrr"]}):
        with pytest.raises(ConfigError, match=r"no run has the key optim.lrr; nearest: optim.lr"):
            require_known_names(BLOCK | block, [config], [])
    require_known_names(BLOCK | {"rows": ["model", "optim.lr"]}, [config], [])


def test_lists_nested_too_deep_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf = tmp_path / "conf"
    (conf / "experiment").mkdir(parents=True)
    deep = f"{'[' * 200}{']' * 200}"
    text = f"# @package _global_\ndefaults: [{{override /task: scan}}]\nreport: {{title: t, rows: {deep}}}\n"
    (conf / "experiment" / "deep.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="nested too deep"):
        check_command(["experiment=deep"])
