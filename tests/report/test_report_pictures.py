"""Pictures of reports and attentions: strongest row, legends beside the data, reasons of empty panels, captions."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image
from support.small_runs import SMALL_SCAN
from support.written_runs import OOD, a_run

from attnlab.analysis.head_heatmaps import WEIGHTS, draw_maps
from attnlab.analysis.summary_figures import divided_weights, norms_title
from attnlab.analysis.summary_types import AttentionSummary, Maps
from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Hypothesis, Picture, Report
from attnlab.plots.style import COLOURS, STRONG, line_looks
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.figures import draw_figures
from attnlab.report.figures.bars import bars
from attnlab.report.figures.draw_figures import draw
from attnlab.report.figures.row_pictures import MARGIN, MOST_ROWS, limits, shortcut_of
from attnlab.report.report_record import Column
from attnlab.report.runs.read_runs import ReportRun, look
from attnlab.report.table_types import Table, TableError

LENGTHS = {f"test/ood/length_{n}/sequence_accuracy": 1 / n for n in (1, 2, 4)}
METRICS = {OOD: 0.5, **LENGTHS, **{f"{name}_oracle_end": 0.9 for name in LENGTHS}}


def grey(colour: str) -> float:
    """Lightness from 0 to 1 where a picture is printed in grey."""
    return Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0)) / 255


def test_the_row_of_interest_is_strongest_in_colour_and_in_grey() -> None:
    names = [f"row {number}" for number in range(len(COLOURS))]
    looks = line_looks(names, "row 2")
    others = [look for name, look in looks.items() if name != "row 2"]
    assert looks["row 2"]["linewidth"] > max(look["linewidth"] for look in others)
    assert all(grey(look["color"]) > grey(STRONG) for look in others)
    assert len({(look["color"], str(look["linestyle"]), look["marker"]) for look in looks.values()}) == len(names)


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


@pytest.fixture
def table(tmp_path: Path, config: dict[str, Any]) -> Table:
    """Rows linear (a finished run), mine (finished, of interest) and late (still missing)."""
    runs = []
    for name in ("linear", "mine", "late"):
        changed = copy.deepcopy(config) | {"model": config["model"] | {"name": name}}
        folder = tmp_path / name / "seed0"
        runs.append(
            ReportRun(folder, changed, "missing") if name == "late" else look(a_run(folder, changed, metrics=METRICS))
        )
    hypotheses = [Hypothesis(row="mine", than="linear", column="ood")]
    return make_table(Report(title="SCAN", columns={"ood": OOD}, hypotheses=hypotheses), runs)


def test_lengths_stand_beside_each_other_with_the_oracle_rule_dashed(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save: Callable[..., Any] = draw_figures.save
    monkeypatch.setattr(draw_figures, "save", lambda figure, *inputs: drawn.append(figure) or save(figure, *inputs))
    picture = Picture(kind="by_length", subset="test/ood", metric="sequence_accuracy")
    [(path, caption)] = draw(table, picture, tmp_path)
    linear, mine, late = drawn[0].axes
    assert [axis.get_title() for axis in (linear, mine, late)] == ["linear", "mine", "late"]
    for axis in (linear, mine):
        plain, oracle = axis.get_lines()
        assert plain.get_linestyle() == "-" and oracle.get_linestyle() == "--"
        assert list(plain.get_ydata()) == [100, 50, 25] and set(oracle.get_ydata()) == {90}
    assert mine.get_lines()[0].get_color() == STRONG != linear.get_lines()[0].get_color()
    assert "no finished run" in " ".join(late.texts[0].get_text().split())
    assert all(axis.get_legend() is None for axis in drawn[0].axes) and len(drawn[0].legends) == 1
    assert drawn[0].legends[0].get_title().get_text() == "line: one seed, bold: row of interest"
    assert "test/ood by length; line: one seed, bold: row of interest." in caption
    with Image.open(path) as file:
        assert file.info["Description"] == caption and 880 <= file.width <= 1000


def test_the_row_of_interest_can_be_named(table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [f"runs={tmp_path}", f"out={tmp_path / 'out'}"]
    assert report_main([*runs, "highlight=mine"]) == 0
    assert "Blue: mine" in (tmp_path / "out/report.json").read_text()
    assert report_main([*runs, "highlight=min"]) == 2
    assert "highlight=min: no such row; nearest: mine" in capsys.readouterr().err


@pytest.mark.parametrize(("shares", "line"), [((0.2, 0.205), 20.25), ((0.2, 0.3), None), ((0.2,), 20.0)])
def test_the_best_shortcut_is_a_line_where_all_rows_are_tested_on_the_same_data(
    config: dict[str, Any], shares: tuple[float, ...], line: float | None
) -> None:
    runs = []
    for number, share in enumerate(shares):
        changed = copy.deepcopy(config) | {"model": config["model"] | {"name": f"row{number}"}}
        result = {"metrics": METRICS, "shortcuts": {OOD: {"copy": share, "first": 0.1}}}
        runs.append(ReportRun(Path(f"row{number}"), changed, "finished", result=result))
    table = make_table(Report(title="SCAN", columns={"ood": OOD}), runs)
    assert shortcut_of(table, table.columns[0]) == pytest.approx(line)
    figure, caption = bars(table)
    dotted = [each for each in figure.axes[0].get_lines() if each.get_linestyle() == ":"]
    assert ("dotted line: best recorded shortcut" in caption) == bool(dotted) == bool(line)
    assert all(each.get_xdata() == pytest.approx([line, line]) for each in dotted)


def maps(*heads: list[list[float]], sums: tuple[float, float] | None = None) -> dict[str, Maps]:
    return {"a": Maps(np.array(heads), None, None, (len(heads[0]), len(heads[0][0])), sums)}


@pytest.mark.parametrize("numbers", [(0.0, 0.0), (1.0, 1.6), (98.0, 100.0), (40.0, 42.0), (0.0, 100.0)])
def test_an_axis_of_shares_has_ten_points_between_0_and_100(numbers: tuple[float, float]) -> None:
    low, high = limits(numbers, Column("ood", "test/ood/sequence_accuracy", "percent"))
    margin = MARGIN * (high - low) / (1 + 2 * MARGIN)
    assert low <= numbers[0] and numbers[1] <= high and high - low - 2 * margin >= 10 - 1e-9
    assert low + margin >= -1e-9 and high - margin <= 100 + 1e-9


def test_captions_say_what_is_shown() -> None:
    note = divided_weights([("one", maps([[1.0, 1.0], [0.0, 2.0]], sums=(0.5, 3.0)))], {"a": "layer 1"})
    assert note.endswith("are divided by the sum of their sizes: one (layer 1 0.5 to 3)")
    kinds = [AttentionSummary(label=kind, about="", normalization=kind) for kind in ("none", "l2")]
    assert "do not normalise" in norms_title(kinds[:1]) and "before their normalisation (l2)" in norms_title(kinds[1:])
    assert "none: none; l2: l2" in norms_title(kinds)


def test_maps_of_weights_mark_uniform_attention() -> None:
    figure = draw_maps([("one", maps([[0.5, 1.5], [-1.0, 5.0]]))], {"a": "layer 1"}, "title", WEIGHTS)
    panel, bar = figure.axes
    assert (panel.get_xlabel(), panel.get_ylabel()) == ("key", "query")
    assert [tick.get_text() for tick in bar.get_xticklabels()][:3] == ["-1", "0", "1"]
    norm = panel.get_images()[0].norm
    assert float(norm(0.0)) == pytest.approx(0.25) and float(norm(1.0)) == pytest.approx(0.5)


def test_bars_of_more_rows_than_fit_into_a_picture_are_named(table: Table, tmp_path: Path) -> None:
    """The file would be refused by its writer, and the report with it."""
    cells = {f"row {number}": table.cells["linear"] for number in range(MOST_ROWS + 1)}
    with pytest.raises(TableError, match="401 rows, and a picture has at most 400; name fewer runs or rows"):
        draw(replace(table, cells=cells), Picture(kind="bars"), tmp_path)
