"""Figures of claims: hypotheses with intervals, paired seeds, IID against OOD, errors by kind; extreme data."""

import copy
import itertools
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from support.slow_cases import slow_except
from support.small_runs import SMALL_SCAN
from support.written_runs import IID, OOD, a_run

from attnlab.config.job_config import compose_config
from attnlab.config.report_block import Average, Hypothesis, Picture, Report, Success, TableFigure
from attnlab.plots import style
from attnlab.report.build_table import make_table
from attnlab.report.cli import report_main
from attnlab.report.failures.count_failures import uneven_spreads
from attnlab.report.figures.by_state_size import MOST_LINES
from attnlab.report.figures.draw_figures import draw
from attnlab.report.figures.forest import ForestLine, forest_of_reports, numbers_of
from attnlab.report.hypothesis_answers import answers
from attnlab.report.page.cli import page_main
from attnlab.report.published_numbers import Published, Value
from attnlab.report.report_notes import flow_line
from attnlab.report.runs.read_runs import DIVERGED, ReportRun
from attnlab.report.table_types import Table, TableError

Outcome = tuple[float, float, float] | str
"""accuracies IID, OOD and OOD with the end given by an oracle; or a state"""
KINDS: tuple[TableFigure, ...] = ("forest", "pairs", "iid_ood", "errors", "state_size")


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    return compose_config([*SMALL_SCAN, "model=linear"])


@pytest.fixture
def make(config: dict[str, Any]) -> Callable[..., Table]:
    """A table of outcomes by row, one for each seed."""

    def run(name: str, seed: int, outcome: Outcome) -> ReportRun:
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
        folder = Path(name) / f"seed{seed}"
        if isinstance(outcome, str):
            state, reason = ("failed", f"{DIVERGED} loss") if outcome == "diverged" else (outcome, "")
            return ReportRun(folder, changed, state, reason)
        iid, ood, content = outcome
        metrics = {IID: iid, OOD: ood, f"{OOD}_oracle_end": content}
        state = 0 if name == "stateless" else 10 * len(name)
        return ReportRun(folder, changed, "finished", result={"metrics": metrics, "state_size": state})

    def table(
        rows: Mapping[str, Sequence[Outcome]],
        *requested: Hypothesis,
        published: Mapping[str, float] | None = None,
        **block: Any,
    ) -> Table:
        runs = [run(name, seed, item) for name, outcomes in rows.items() for seed, item in enumerate(outcomes)]
        cells = {(row, "ood"): Value(value, None, None, "") for row, value in (published or {}).items()}
        known = Published(table="a/b", paper="a paper", unit="percent", cells=cells) if cells else None
        report = Report(title="SCAN", columns={"iid": IID, "ood": OOD}, hypotheses=list(requested), **block)
        made = make_table(report, runs, known)
        return replace(made, answers=answers(made))

    return table


@pytest.fixture
def of_lengths(config: dict[str, Any]) -> Table:
    """Two models at two lengths: with twice the length a run has twice the state, and half the accuracy."""
    runs = []
    for name, length, seed in itertools.product(("linear", "mine"), (20, 40), (0, 1)):
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
        changed["task"]["length_cutoff"] = length
        metrics = {OOD: 10 / length, OOD.replace("ood", f"ood/length_{length}"): 10 / length}
        result = {"metrics": metrics, "state_size": 100 * length}
        runs.append(ReportRun(Path(name) / f"{length}/seed{seed}", changed, "finished", result=result))
    columns = {f"at_{at}": {"metric": OOD, "where": {"task.length_cutoff": at}} for at in (20, 40)}
    pictures = [Picture(kind=kind) for kind in ("by_length", "state_size", "training")]
    average = Average(name="average", of=[*columns])
    return make_table(Report(title="SCAN", columns=columns, figures=pictures, average=average), runs)


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Figure, str]]:
    """Draws a picture; returns the figure and its caption."""
    figures: list[Figure] = []
    save = style.save
    monkeypatch.setattr(
        "attnlab.report.figures.draw_figures.save",
        lambda figure, *inputs: figures.append(figure) or save(figure, *inputs),
    )

    def one(table: Table, kind: TableFigure, **options: Any) -> tuple[Figure, str]:
        [(path, caption)] = draw(table, Picture(kind=kind, **options), tmp_path)
        assert path.stat().st_size > 1000
        return figures[-1], caption

    return one


def claim(row: str, than: str, **form: Any) -> Hypothesis:
    return Hypothesis(row=row, than=than, column="ood", **form)


def accuracies(*values: float) -> list[Outcome]:
    return [(1.0, value, (1 + value) / 2) for value in values]


def texts(axis: Axes) -> list[str]:
    return [text.get_text() for text in axis.texts]


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other by more than a pixel, or leave the figure."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    result: list[Text] = [*figure.texts, *figure.legends[0].get_texts(), figure.legends[0].get_title()]
    for axis in (axis for axis in figure.axes if axis.get_visible()):
        for ruler in (axis.xaxis, axis.yaxis):
            low, high = sorted(ruler.get_view_interval())
            result += [tick.label1 for tick in ruler.get_major_ticks() if low <= tick.get_loc() <= high]
        result += [axis.title, axis.xaxis.label, axis.yaxis.label, *axis.texts]
    boxes = [
        (text.get_text(), text.get_window_extent(canvas.get_renderer()).padded(-1))
        for text in result
        if text.get_visible() and text.get_text().strip()
    ]
    outside = [(name, "the edge") for name, box in boxes if box.x0 < -2 or box.x1 > canvas.get_width_height()[0] + 2]
    return outside + [(name, other) for (name, a), (other, b) in itertools.combinations(boxes, 2) if a.overlaps(b)]


def test_a_forest_plot_has_interval_claim_published_effect_and_verdict(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    rows = {"linear": accuracies(0.4, 0.41, 0.42, 0.43, 0.44), "mine": accuracies(0.6, 0.62, 0.62, 0.64, 0.64)}
    hypotheses = [claim("mine", "linear", at_least=10.0), claim("mine", "linear", within=2.0), claim("linear", "mine")]
    figure, caption = drawn(make(rows, *hypotheses, published={"linear": 46.9, "mine": 56.3}), "forest")
    [axis] = figure.axes
    assert [text.strip() for text in texts(axis)] == ["supported", "refuted", "refuted"]
    ends = {tuple(round(x, 1) for x in line.get_xdata()) for line in axis.get_lines()}
    # the published effect of either direction
    assert {(9.4, 9.4), (-9.4, -9.4)} <= ends
    bands = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axis.patches]
    right = axis.get_xlim()[1]
    assert bands == [pytest.approx((10, right)), pytest.approx((-2, 2)), pytest.approx((0, right))]
    [difference] = [line for line in axis.get_lines() if line.get_marker() == "o"]
    assert list(difference.get_xdata()) == pytest.approx([20.4])
    assert "supported: its interval lies in the claimed differences" in caption


def test_a_forest_plot_of_few_diverged_and_counted_runs(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    rows: dict[str, list[Outcome]] = {
        "linear": accuracies(0.4, 0.41, 0.42),
        "mine": accuracies(0.6, 0.62, 0.62),
        "other": ["diverged", *accuracies(0.5, 0.5)],
    }
    fewer = Hypothesis(row="mine", fails_less_than="other")
    hypotheses = [claim("mine", "linear"), claim("mine", "other"), fewer]
    figure, _ = drawn(make(rows, *hypotheses, success=Success(column="ood", at_least=55)), "forest")
    [axis] = figure.axes
    message = [text.replace("\n", " ") for text in texts(axis)]
    assert any("% of the pairs of runs" in text for text in message) and any(
        "failures 0 of 3 and 3 of 3" in text for text in message
    )
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "range of fewer than 5 seeds",
        "claimed differences",
    ]
    with pytest.raises(TableError, match="no hypothesis has a difference"):
        drawn(make({"linear": accuracies(0.4), "mine": accuracies(0.5)}, claim("mine", "linear")), "forest")


def test_runs_under_different_conditions_do_not_meet_in_a_line(
    of_lengths: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures: list[Figure] = []
    save = style.save
    monkeypatch.setattr(
        "attnlab.report.figures.draw_figures.save",
        lambda figure, *inputs: figures.append(figure) or save(figure, *inputs),
    )
    by_length, sizes, training = of_lengths.report.figures
    files = draw(of_lengths, by_length, tmp_path)
    assert [path.name for path, _ in files] == ["by_length_at_20.png", "by_length_at_40.png"]
    assert [caption.split(": ")[1] for _, caption in files] == ["at_20", "at_40"]
    for figure, length in zip(figures, (20, 40), strict=True):
        drawn = [line.get_xydata().tolist() for axis in figure.axes for line in axis.get_lines()]
        assert [points for points in drawn if points] == [[[length, 1000 / length]]] * 2 and not overlaps(figure)
    draw(of_lengths, sizes, tmp_path)
    lines = [[tuple(line.get_xydata()[0]) for line in axis.get_lines()] for axis in figures[-1].axes[:3]]
    assert {points[0] for points in lines} == {(2000, 50), (4000, 25), (3000, 37.5)}
    with pytest.raises(TableError, match="no run has logged"):
        draw(of_lengths, training, tmp_path)
    by_task = Report(title="SCAN", rows=["task", "model"], columns={"ood": OOD}, figures=[sizes])
    draw(
        make_table(by_task, [run for run in of_lengths.runs if run.config["task"]["length_cutoff"] == 20]),
        sizes,
        tmp_path,
    )
    assert len(figures[-1].legends[0].get_texts()) == 2, "a line for each model"
    # of several lengths the one with the best number
    best = replace(of_lengths.report, columns={"ood": OOD}, average=None, best_over=["task.length_cutoff"])
    draw(make_table(best, of_lengths.runs), by_length, tmp_path)
    drawn = [line.get_xydata().tolist() for axis in figures[-1].axes for line in axis.get_lines()]
    assert [points for points in drawn if points] == [[[20, 50]]] * 2


def test_pairs_are_lines_between_the_same_seeds(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    rows: dict[str, list[Outcome]] = {
        "linear": accuracies(0.4, 0.5, 0.6, 0.7),
        "mine": [*accuracies(0.5, 0.5, 0.3), "diverged"],
    }
    figure, caption = drawn(make(rows, claim("mine", "linear")), "pairs")
    [axis] = figure.axes
    lines = [tuple(line.get_ydata()) for line in axis.get_lines() if len(line.get_xdata()) == 2]
    assert lines == [(40, 50), (50, 50), (60, 30)]
    assert axis.get_title() == "ood: 1 of 3 better\n1 diverged"
    assert "Runs that diverged, without a mark: mine 1 of 4" in caption
    assert [70.0] in [list(line.get_ydata()) for line in axis.get_lines()], "the seed whose other run diverged"
    # without hypotheses, the last column
    assert drawn(make(rows), "pairs")[0].axes[0].get_title() == "ood: 1 of 3 better\n1 diverged"
    with pytest.raises(TableError, match="metric=od: no such column; columns: iid, ood"):
        drawn(make(rows), "pairs", metric="od")
    with pytest.raises(TableError, match="no two rows have a seed in common"):
        drawn(
            make({"linear": accuracies(0.4), "mine": ["missing", *accuracies(0.4)]}, claim("mine", "linear")), "pairs"
        )


def test_every_run_is_a_dot_of_iid_over_ood(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    """Equal numbers of all runs: every dot is at its numbers, and rings of six sizes lie around each other."""
    rows = {f"row {number}": accuracies(*[0.0] * 5) for number in range(6)}
    figure, caption = drawn(make(rows), "iid_ood")
    [axis] = figure.axes
    dots = [line for line in axis.get_lines() if line.get_linestyle() == "None"]
    assert [line.get_xydata().tolist() for line in dots] == [[[100, 0]] * 5] * 6
    assert len({line.get_markersize() for line in dots}) == 6
    assert all(line.get_markerfacecolor() == "none" for line in dots)
    assert "equal numbers" not in caption, "its line is out of sight"
    assert "dashed: equal numbers" in drawn(make({"row": [(0.9, 0.5, 0.5), (0.6, 0.6, 0.6)]}), "iid_ood")[1]
    assert (axis.get_xlim()[0] > 80, axis.get_ylim()[1] < 20) == (True, True), "the scale is around the numbers"
    many = make(rows | {"row 6": accuracies(0.3)})
    assert [axis.get_title() for axis in drawn(many, "iid_ood")[0].axes if axis.get_visible()][-1] == "row 6"


def test_a_column_is_drawn_over_another_one_with_its_rank_correlation(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    """The interval by hand: tanh(atanh(r) -+ 1.96 sqrt((1 + r^2 / 2) / (n - 3))) of r = -1 + 12 / 990."""
    falling = [(0.1 * seed, 1 - 0.1 * seed, 0.0) for seed in range(10)]
    falling[4], falling[5] = (0.4, 0.5, 0.0), (0.5, 0.6, 0.0)
    table = make({"linear": [*falling, "diverged"], "mine": [(0.5, 0.5, 0.5)] * 10, "few": accuracies(0.4, 0.5)})
    figure, caption = drawn(table, "scatter", x="iid")
    [axis] = figure.axes
    dots = {line.get_label(): line.get_xydata() for line in axis.get_lines() if line.get_linestyle() == "None"}
    r = -1 + 12 / 990
    center, reach = math.atanh(r), 1.96 * math.sqrt((1 + r**2 / 2) / 7)
    low, high = math.tanh(center - reach), math.tanh(center + reach)
    assert [*dots] == [f"linear: {r:.2f} ({low:.3f} to {high:.2f})", "mine: equal numbers", "few"]
    assert [len(numbers) for numbers in dots.values()] == [10, 10, 2]
    assert "ood over iid" in caption and "Spearman" in caption and "linear 1 of 11" in caption
    with pytest.raises(TableError, match="metric=key_norm: no such column; columns: iid, ood"):
        drawn(table, "scatter", x="key_norm")


def test_accuracy_is_drawn_over_the_size_of_the_state(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    """A marker for the mean of each row at the numbers that it keeps; rows without a state are named."""
    rows = {"linear": accuracies(0.2, 0.4), "softmax_": accuracies(0.9), "stateless": accuracies(0.5)}
    figure, caption = drawn(make(rows), "state_size")
    lines = [line for line in figure.axes[1].get_lines() if line.get_marker() in ("o", "s", "^", "D")]
    assert [line.get_xydata().tolist() for line in lines] == [[[60, pytest.approx(30)]], [[80, pytest.approx(90)]]]
    assert "Without a state: stateless" in caption
    with pytest.raises(TableError, match="no row has a state"):
        drawn(make({"stateless": accuracies(0.5)}), "state_size")
    many = {f"row {number}": accuracies(number / 10) for number in range(MOST_LINES + 1)}
    figure, caption = drawn(make(many), "state_size")
    assert [axis.get_title() for axis in figure.axes if axis.get_visible()] == list(many), (
        "many lines have a panel each"
    )


def test_errors_are_divided_into_wrong_ends_and_wrong_content(
    make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    rows: dict[str, list[Outcome]] = {
        "linear": [(1.0, 0.2, 0.7), (1.0, 0.4, 0.9)],
        "late": ["missing", "missing"],
        "all wrong": [(1.0, 0.0, 0.0)] * 2,
    }
    figure, caption = drawn(make(rows), "errors")
    [axis] = figure.axes
    assert axis.get_title() == "test/ood", "test/iid has no oracle"
    bars = [round(bar.get_width(), 6) for bar in axis.patches]
    assert bars == [30, 50, 20, 0, 0, 100] and texts(axis) == ["missing"]
    assert "bar: outputs, mean of 2 seeds" in caption
    assert [item.get_text() for item in figure.legends[0].get_texts()] == ["right", "wrong end only", "wrong content"]


def test_a_forest_plot_of_several_reports_has_every_hypothesis(make: Callable[..., Table]) -> None:
    rows = {"linear": accuracies(0.3, 0.31, 0.3, 0.32, 0.3), "mine": accuracies(0.31, 0.9, 0.31, 0.9, 0.3)}
    better, failing = claim("mine", "linear"), Hypothesis(row="mine", fails_less_than="linear")
    inferior = claim("linear", "mine", not_worse_by=40)
    counted = make(rows, better, failing, inferior, success=Success(column="ood", at_least=55))
    alike = make({name: [*values[:2], "running"] for name, values in rows.items()}, better)
    foreign = [replace(answer, verdict="not supported", claimed=None) for answer in alike.answers]
    unit = counted.columns[0].unit
    lines = [[ForestLine(answer, unit) for answer in answers] for answers in (counted.answers, alike.answers, foreign)]
    figure, _ = forest_of_reports([*zip(("one", "two", "two"), lines, strict=True)])
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert [name.replace("\n", " ") for name in names] == [
        *("one", "mine \N{MINUS SIGN} linear, ood", "failures of mine, of linear"),
        "linear \N{MINUS SIGN} mine, ood, claimed above -40",
        *("two", "mine \N{MINUS SIGN} linear, ood") * 2,
    ]
    marked = [text.strip() for text in texts(figure.axes[0])]
    assert [text.rsplit(" ", 1)[1] for text in marked] == ["undecided"] * 4 + ["supported"]
    assert marked[1].startswith("failures 3 of 5 and 5 of 5") and marked[3].startswith("30.0 (1.0 to 59.0)")
    assert not overlaps(figure)
    narrow, note = forest_of_reports([("one", [ForestLine(replace(alike.answers[0], low=0.0, high=9.0), unit)])])
    assert (figure.axes[0].get_xscale(), narrow.axes[0].get_xscale()) == ("symlog", "linear")
    assert "logarithmic" not in note
    lower = ForestLine(replace(counted.answers[0], claimed=(None, 0.0)), "word perplexity")
    assert lower.name.endswith("ood, claimed below 0") and numbers_of(lower).endswith(")\nword perplexity")
    with pytest.raises(TableError, match="no hypothesis on percentages"):
        forest_of_reports([("one", lines[0][1:2])])
    with pytest.raises(TableError, match="at most 400 rows"):
        forest_of_reports([("one", lines[0] * 200)])


@pytest.mark.parametrize("kind", slow_except(KINDS, ["forest", "pairs"]))
def test_no_text_covers_another_one(
    kind: TableFigure, make: Callable[..., Table], drawn: Callable[..., tuple[Figure, str]]
) -> None:
    """Twenty rows with long names; rows at 0 and 100 %; failed, missing and single runs."""
    noise = random.Random(0)
    names = [f"a_long_name_of_row_number_{number}" for number in range(20)]
    rows = {name: accuracies(*(noise.random() for _ in range(5))) for name in names}
    extreme: dict[str, list[Outcome]] = {"zero": [(1, 0, 0)] * 5, "all": [(1, 1, 1)] * 5, "late": ["missing"] * 5}
    extreme["failed"] = ["diverged", *accuracies(0.2, 0.9, 0.4, 0.5)]
    few = [claim("all", "zero"), claim("failed", "zero"), claim("late", "zero", within=1.0)]
    assert not overlaps(drawn(make(rows, *(claim(name, names[0]) for name in names[1:])), kind)[0])
    assert not overlaps(drawn(make(extreme, *few), kind)[0])


def test_runs_of_each_row_are_counted(make: Callable[..., Table]) -> None:
    rows: dict[str, list[Outcome]] = {
        "linear": accuracies(0.4, 0.41),
        "mine": accuracies(0.5, 0.5),
        "failed": ["diverged", "missing", "running", *accuracies(0.5)],
    }
    reported = flow_line(make(rows))
    assert reported == "runs of each row started/diverged/finished/used: 2/0/2/2 (linear; mine); 3/1/1/1 (failed)"


def test_rows_of_uneven_spread_are_named_where_no_success_is_declared(make: Callable[..., Table]) -> None:
    even, split = accuracies(0.91, 0.92, 0.93, 0.94, 0.95), accuracies(0.9, 0.91, 0.3, 0.92, 0.93)
    [reported] = [*told_of(make({"linear": even, "mine": split}))]
    assert reported.startswith(
        "in ood, seeds of mine (sd 27.5, none between 30.0 and 90.0) are spread more widely than seeds of linear "
        "(sd 1.6); if some of them failed, let report.success count"
    )
    [reported] = told_of(make({"linear": even, "mine": split, "yours": split}))
    assert "mine (sd 27.5, none between 30.0 and 90.0), yours (sd 27.5, none between" in reported
    assert not told_of(make({"linear": even, "mine": split}, success=Success(column="ood", at_least=60)))
    assert told_of(make({"linear": even, "mine": split}, success=Success(column="iid", at_least=60))), "elsewhere"
    assert not told_of(make({"linear": even[:4], "mine": split[:4]})), "four seeds"
    # wide without a gap, beside a row near 100 %
    assert not told_of(make({"linear": accuracies(*[0.999] * 5), "mine": accuracies(0.5, 0.52, 0.54, 0.56, 0.58)}))
    # 0.2 and 0.0 %
    assert not told_of(make({"linear": accuracies(*[0.0] * 5), "mine": accuracies(0.004, 0.0, 0.0, 0.0, 0.0)}))
    answer = make({"linear": even, "mine": split}, claim("mine", "linear"))
    assert "seeds of mine (sd 27.5, none between 30.0 and 90.0) are spread more widely" in answers(answer)[0].reason


def told_of(table: Table) -> list[str]:
    return uneven_spreads(table, table.comparisons())


def test_the_rate_of_warnings_is_as_documented(make: Callable[..., Table]) -> None:
    """400 pairs of rows of five seeds: 2.6 % of equal normal rows, 68 % where 20 % of the seeds fail."""
    noise, size = random.Random(1), 400

    def rate(failing: float) -> float:
        def value() -> float:
            return noise.gauss(0.5 if noise.random() < failing else 0.9, 0.02)

        rows = {f"row {number}": accuracies(*(value() for _ in range(5))) for number in range(size)}
        base = {"base": accuracies(*(noise.gauss(0.88, 0.02) for _ in range(5)))}
        table = make(base | rows)
        return sum(bool(uneven_spreads(table, [pair])) for pair in table.comparisons()) / size

    assert rate(0.0) < 0.15, "of one base row"
    assert 0.5 < rate(0.2) < 0.85


def test_figures_are_drawn_by_the_command_and_on_the_page(
    tmp_path: Path, config: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, name in itertools.product(range(2), ("linear", "mine")):
        changed = copy.deepcopy(config) | {"seed": seed, "model": config["model"] | {"name": name}}
        metrics = {IID: 0.9, OOD: 0.1 + seed / 10, f"{OOD}_oracle_end": 0.5}
        a_run(tmp_path / "runs" / name / f"seed{seed}", changed, metrics=metrics)
    words = [f"runs={tmp_path / 'runs'}", f"out={tmp_path / 'out'}"]
    assert report_main([*words, "figures=forest,pairs,iid_ood,errors"]) == 0
    out = capsys.readouterr().out
    assert "no picture forest: the experiment declares no hypothesis" in out
    assert "report.json, pairs.png, iid_ood.png, errors.png" in out
    assert (
        page_main([f"reports={tmp_path / 'out'}", f"measured={tmp_path / 'out'}", f"out={tmp_path / 'page.html'}"]) == 0
    )
    page = (tmp_path / "page.html").read_text()
    assert page.count("data:image/png;base64") == 3 and "runs of each row started" in page
    capsys.readouterr()
    assert report_main([*words, "figures=forrest"]) == 2
    printed = capsys.readouterr().err
    assert "figures=forrest" in printed and "nearest: forest" in printed and "iid_ood" in printed


def test_a_report_with_hypotheses_draws_them_without_being_asked() -> None:
    assert [item.kind for item in Report(title="", columns={}, hypotheses=[claim("a", "b")]).figures] == [
        "bars",
        "forest",
    ]
    assert [item.kind for item in Report(title="", columns={}).figures] == ["bars"]


def test_pictures_of_one_kind_are_named_by_what_differs(make: Callable[..., Table], tmp_path: Path) -> None:
    pictures = [Picture(kind="scatter", x=x, metric=metric) for x, metric in (("iid", "ood"), ("ood", "iid"))]
    pictures.append(Picture(kind="bars"))
    table = make({"linear": accuracies(0.4, 0.5), "mine": accuracies(0.5, 0.6)}, figures=pictures)
    names = [path.name for picture in pictures for path, _ in draw(table, picture, tmp_path)]
    assert names == ["scatter_iid_ood.png", "scatter_ood_iid.png", "bars.png"]
