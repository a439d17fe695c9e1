"""Figures of attentions: their numbers, the files of tiny runs, the command, and figures during training."""

import csv
import itertools
import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from support.slow_cases import slow_except
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, config_of, run_job
from support.tiny_data import trained

from attnlab.analysis import summary_figures
from attnlab.analysis.attention_labels import titles
from attnlab.analysis.compute_summary import cosines
from attnlab.analysis.gradient_norm_variation import column, relative_sd, running_relative_sd
from attnlab.analysis.head_heatmaps import VALUES, draw_maps
from attnlab.analysis.summary_figures import draw
from attnlab.analysis.summary_types import RATIOS, AttentionSummary, Locality, Maps, Norms, neighbourhood_shares
from attnlab.analysis.violins_and_curves import draw_locality, draw_norms, draw_spread
from attnlab.attention.linear import LinearAttention
from attnlab.config.run_identity import run_folder
from attnlab.learn import evaluator
from attnlab.learn.training_module import TrainingModule
from attnlab.plots.style import SCREEN
from attnlab.report.diagnose import run_figures
from attnlab.report.diagnose.cli import DiagnoseOptions, diagnose_main, diagnose_run
from attnlab.report.diagnose.run_figures import NamedRun, draw_diagnosis
from attnlab.run import figure_callback, final_test
from attnlab.run.wandb_mirror import WandbMirror

EVERYTHING = {"norms", "values", "weights", "locality", "gradients"}


def share_at(shares: np.ndarray, ratio: float) -> float:
    return float(np.interp(ratio, RATIOS, shares))


def test_neighbourhoods_grow_from_the_query_left_first_and_go_on_where_a_side_ends() -> None:
    first, middle = [0.1, 0.2, 0.3, 0.4], [0.5, 0.25, 0.0, 0.25]
    shares, rows = neighbourhood_shares(np.array([[first, middle, [0] * 4, [0] * 4]]))
    # row 0: 0.1, then 0.2, 0.3, 0.4 at its right; row 1: 0.25, left 0.5, right 0, then 0.25; rows without weight: none
    assert rows == 2
    expected = [0.0, (0.1 + 0.25) / 2, (0.3 + 0.75) / 2, (0.6 + 0.75) / 2, 1.0]
    assert [share_at(shares, r) for r in (0, 0.25, 0.5, 0.75, 1)] == pytest.approx(expected)
    assert share_at(shares, 0.125) == pytest.approx(expected[1] / 2), "between whole positions it is interpolated"


def test_locality_takes_sizes_of_weights_in_any_scale() -> None:
    weights = np.random.default_rng(0).normal(size=(2, 5, 5))
    shares, rows = neighbourhood_shares(weights)
    assert rows == 10
    np.testing.assert_allclose(shares, neighbourhood_shares(-3 * np.abs(weights))[0], rtol=1e-12)
    assert neighbourhood_shares(np.eye(4)[None])[0][25:] == pytest.approx(1.0)


def test_locality_is_a_mean_over_rows_beside_what_uniform_attention_has() -> None:
    locality = Locality()
    locality.add(np.eye(4)[None], causal=False)
    locality.add(np.full((1, 8, 8), 0.3), causal=False)
    # four rows have all within a quarter of the length, eight a quarter of it
    assert share_at(locality.shares, 0.25) == pytest.approx((4 * 1 + 8 * 0.25) / 12)
    np.testing.assert_allclose(locality.uniform, RATIOS, atol=1e-12)
    causal = Locality()
    causal.add(np.tri(2)[None], causal=True)
    # of two positions the first sees itself alone, the second itself and the one before
    assert share_at(causal.uniform, 0.5) == pytest.approx((1 + 0.5) / 2) == share_at(causal.shares, 0.5)


def test_cosines_of_known_values() -> None:
    actual = cosines(np.array([[3.0, 0.0], [1.0, 1.0], [0.0, 0.0], [-2.0, 0.0]]))
    half = math.sqrt(0.5)
    expected = [[1, half, 0, -1], [half, 1, 0, -half], [0, 0, 0, 0], [-1, -half, 0, 1]]
    np.testing.assert_allclose(actual, expected, atol=1e-12)


def test_relative_standard_deviation() -> None:
    # mean 3, population variance (4 + 0 + 4) / 3
    assert relative_sd([1.0, 3.0, 5.0]) == pytest.approx(math.sqrt(8 / 3) / 3)
    assert relative_sd([1.0, math.inf, 3.0, 5.0, math.nan]) == relative_sd([1.0, 3.0, 5.0])
    assert relative_sd([1e299, 3e299, 5e299]) == pytest.approx(relative_sd([1.0, 3.0, 5.0]))
    assert all(math.isnan(relative_sd(values)) for values in ([], [1.0], [-1.0, 1.0]))
    running = running_relative_sd([1.0, 3.0, 5.0, 5.0], 2)
    assert math.isnan(running[0]) and running[1:] == pytest.approx([0.5, 0.25, 0.0])
    rows = [(1, "train/loss", 9.0), (1, "train/gradient_norm", 2.0), (2, "train/gradient_norm", 4.0)]
    assert column(rows) == ([1, 2], [2.0, 4.0])


def test_paths_of_attentions_become_titles() -> None:
    names = ["encoder.layers.0.attention", "encoder.layers.0.attention#2", "decoder.layers.1.cross"]
    names += ["sequence.encoder.layers.1.attention.attentions.0", "own"]
    assert list(titles(names).values()) == [
        "encoder, layer 1, use 1",
        "encoder, layer 1, use 2",
        "decoder, layer 2, cross",
        "encoder, layer 2, part 1",
        "own",
    ]


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def test_odd_numbers_are_drawn_and_counted(tmp_path: Path) -> None:
    """Equal norms, infinite norms, no finite norm; runs whose networks differ in heads and layers; maps with $."""
    name = "encoder.layers.0.attention"
    norms = Norms([np.ones(3), np.full(2, np.inf)], [np.array([1.0, 2.0, np.nan]), np.array([500.0, 1.0])])
    maps = Maps(np.array([[[np.nan, 0.0], [-1.0, 2.0]]]), ["$a", "b_$"], None, (2, 9))
    item = AttentionSummary(label="$one$", about="2 examples", norms={name: norms}, weights={name: maps})
    other = AttentionSummary(
        label="other", about="2 examples", norms={"encoder.layers.1.attention": Norms([norms.keys[0]] * 20, [])}
    )
    draw("norms", [item, other, other], tmp_path / "norms")
    result = rows_of(tmp_path / "norms.csv")
    assert [row["not_finite"] for row in result[:4]] == ["0", "2", "1", "0"]
    assert (result[2]["mean"], result[2]["median"], result[1]["mean"]) == ("1.5", "1.5", "")
    draw("weights", [item, other, item], tmp_path / "weights")
    assert [rows_of(tmp_path / "weights.csv")[1][key] for key in ("name", "1", "2")] == ["b_$", "-1", "2"]
    assert draw("locality", [item], tmp_path / "nothing") == []


def test_lines_of_gradients_have_a_marker_at_their_first_number_and_empty_panels_no_scale() -> None:
    steps = list(range(400))
    above, below = draw_spread([("a", steps, [1.0 + step for step in steps], [math.nan] * 400, 0.5)]).axes
    [line] = above.get_lines()
    assert line.get_markevery()[0] == 3 and np.isnan(line.get_ydata()[:3]).all() and np.isfinite(line.get_ydata()[3])
    assert len(below.get_yticks()) == 0 and len(below.get_xticks()) > 0


@pytest.fixture(scope="module", autouse=True)
def untested() -> Iterator[None]:
    """The test after training takes most of a tiny run's time and has no part in figures."""
    with pytest.MonkeyPatch.context() as patch:
        nothing = (evaluator.Findings(), {"rule": "last_step"})
        patch.setattr(final_test, "final_test", lambda *inputs: nothing)
        yield


@pytest.fixture(scope="module")
def runs(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny runs by name: SCAN, sort-of-CLEVR with a shared layer and two seeds, a language model."""
    folder = tmp_path_factory.mktemp("diagnosed")
    cheap = ("trainer.threads=1",)
    requested = {
        "scan": ("scan", "model=transnormer_t1", "seed=0"),
        "sort_of_clevr": ("sort_of_clevr", "model=linear"),
        "other seed": ("sort_of_clevr", "model=linear", "seed=1"),
        "wikitext2": ("wikitext2", "model=vanilla"),
    }
    return {name: trained(tiny_data, folder, task, *more, *cheap)[0] for name, (task, *more) in requested.items()}


def written(out: Path) -> set[str]:
    return {file.name for file in out.iterdir() if file.stat().st_size}


@pytest.mark.parametrize(
    ("name", "compare", "attentions"),
    slow_except(
        [("scan", None, 3), ("sort_of_clevr", "other seed", 2), ("wikitext2", None, 2)],
        [("sort_of_clevr", "other seed", 2)],
    ),
)
def test_files_of_a_run(runs: dict[str, Path], tmp_path: Path, name: str, compare: str | None, attentions: int) -> None:
    options = DiagnoseOptions(diagnose=runs[name], compare=runs.get(compare), examples=3)
    files = diagnose_run(options, tmp_path)
    assert (
        {file.name for file in files} == written(tmp_path) == {f"{q}.{e}" for q in EVERYTHING for e in ("png", "csv")}
    )
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files if file.suffix == ".png")
    for quantity in ("norms", "values", "weights"):
        result = rows_of(tmp_path / f"{quantity}.csv")
        assert len({row["attention"] for row in result}) == attentions
        assert len({row["run"] for row in result}) == (1 if compare is None else 2)
    local = rows_of(tmp_path / "locality.csv")
    assert not any("cross" in row["attention"] for row in local)
    assert {float(row["share_of_attention"]) for row in local if row["share_of_length"] == "1"} == {1.0}
    norms = [row for row in rows_of(tmp_path / "gradients.csv") if row["step"] == "2"]
    assert float(norms[0]["relative_sd_of_all_steps"]) > 0


def test_numbers_are_those_of_the_run(runs: dict[str, Path], tmp_path: Path) -> None:
    """Padding counts nowhere; maps are of the example that was asked for, named by its tokens."""
    from support.small_runs import checked

    from attnlab.run.build_runtime import prepare
    from attnlab.run.run_folder import read_config
    from attnlab.tasks.base import make_task

    chosen = {"quantities": ["norms", "weights"], "subset": "test/ood", "examples": 4, "example": 5}
    diagnose_run(DiagnoseOptions(diagnose=runs["scan"], **chosen), tmp_path)
    config = checked(read_config(runs["scan"] / "config.yaml"))
    examples = prepare(make_task(config.task), config.paths).subsets["test/ood"]
    size = len(examples)
    batch = examples.batch(np.array([5, 0, size // 4, size // 2]))
    counts = {(r["attention"], r["of"]): int(r["n"]) for r in rows_of(tmp_path / "norms.csv") if r["head"] == "1"}
    inputs, outputs = int(batch.input_lengths.sum()), int(batch.target_lengths.sum())
    assert counts["decoder, layer 1, cross", "queries"] == outputs == counts["decoder, layer 1", "keys"]
    assert counts["decoder, layer 1, cross", "keys"] == inputs == counts["encoder, layer 1", "queries"]
    rows = [r for r in rows_of(tmp_path / "weights.csv") if r["head"] == "1" and r["attention"] == "decoder, layer 1"]
    names = [row["name"] for row in rows]
    assert names[0] == "<start>" and all(name.startswith("I_") for name in names[1:])
    assert len(names) == int(batch.target_lengths[0])
    assert all(float(row[str(later)]) == 0 for at, row in enumerate(rows, 1) for later in range(at + 1, len(rows) + 1))
    # on a scale where uniform attention is 1, so that a query's weights add up to the number of keys that it sees
    for at, row in enumerate(rows, 1):
        assert sum(abs(float(row[str(key)])) for key in range(1, at + 1)) == pytest.approx(at, rel=1e-3)
    assert {row["quantity"] for row in rows} <= {"weight_times_keys", "weight_share_times_keys"}


def test_runs_of_an_experiment_share_pictures_where_they_differ_by_seed(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [("a", "sort_of_clevr", "0"), ("b", "wikitext2", "0"), ("a", "other seed", "1")]
    named = [NamedRun(f"{row} {seed}", runs[name], f"row {row}/x", seed) for row, name, seed in words]
    requested = []

    def noted(quantity: str, summaries: list[AttentionSummary], path: Path) -> list[Path]:
        requested.append((path.name, [summarie.label for summarie in summaries]))
        return [path]

    monkeypatch.setattr(run_figures, "draw", noted)
    assert draw_diagnosis("norms", named, tmp_path) == [
        tmp_path / "norms_row_a_x_seed0_seed1",
        tmp_path / "norms_row_b_x_seed0",
    ]
    draw_diagnosis("values", named[:1], tmp_path)
    draw_diagnosis("locality", named, tmp_path)
    expected = [("norms_row_a_x_seed0_seed1", ["a 0", "a 1"]), ("norms_row_b_x_seed0", ["b 0"])]
    assert requested == [*expected, ("values_row_a_x_seed0", ["a 0"]), ("locality", ["a 0", "b 0", "a 1"])]
    assert [file.name for file in draw_diagnosis("gradients", named, tmp_path)] == ["gradients.png", "gradients.csv"]


def test_the_command_writes_into_the_run_folder(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diagnose_main([f"diagnose={runs['sort_of_clevr']}", "quantities=gradients,norms", "examples=2"]) == 0
    assert written(runs["sort_of_clevr"] / "diagnosis") == {
        f"{q}.{e}" for q in ("gradients", "norms") for e in ("png", "csv")
    }
    assert str(runs["sort_of_clevr"] / "diagnosis" / "norms.png") in capsys.readouterr().out
    for word, code, message in (
        ("subset=test/odd", 2, "nearest: test"),
        ("example=9999", 1, "examples, numbered from 0"),
    ):
        words = [f"diagnose={runs['sort_of_clevr']}", "quantities=norms", f"out={tmp_path}", word]
        assert diagnose_main(words) == code
        assert message in capsys.readouterr().err


def test_what_the_command_refuses(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scan, empty, cut = runs["scan"], tmp_path / "empty", tmp_path / "cut"
    for folder, text in (
        (empty, None),
        (cut, "seed: 0\ntask:\n"),
        (tmp_path / "new", (scan / "config.yaml").read_text()),
    ):
        folder.mkdir()
        if text is not None:
            (folder / "config.yaml").write_text(text)
    for words, message in {
        (): "",
        ("diagnos=x",): "diagnos: unknown key; nearest: diagnose",
        ("quantities=norms",): "diagnose: missing",
        ("diagnose=",): "expected diagnose=value",
        (str(scan),): f"write diagnose={scan}",
        (f"diagnose={scan}", "quantities=norm"): "quantities=norm: expected one of norms, values, weights, locality, "
        "gradients; nearest: norms",
        (f"diagnose={scan}", "examples=0"): "examples=0: expected a whole number >= 1",
        (f"diagnose={tmp_path / 'emty'}",): f"no such folder; nearest: {empty}",
        (f"diagnose={empty}",): "is no run folder",
        (f"diagnose={cut}",): "config.yaml is cut short or no run's (it lacks backbone, model, ",
        (f"diagnose={tmp_path / 'new'}",): "has saved no weights yet",
        (f"diagnose={scan}", f"compare={runs['sort_of_clevr']}"): "no axes in common with scan",
    }.items():
        assert diagnose_main(words) == 2
        assert message in capsys.readouterr().err
    # what needs no weights asks for none
    assert diagnose_main([f"diagnose={tmp_path / 'new'}", "quantities=gradients"]) == 1
    assert "has logged no step of training yet" in capsys.readouterr().err


FIGURES = ("train.max_steps=4", "train.checkpoint_every=2", "logger.figures_every=2", "model=performer")


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> list[AttentionSummary]:
    """Draws one dot instead of each figure and returns the list of requested figures.

    Every drawing takes random numbers, which must not change training.
    """
    requested = []

    def sketch(quantity: str, summaries: list[AttentionSummary], path: Path) -> None:
        from PIL import Image

        requested.extend(summaries)
        torch.rand(3), np.random.rand(3), random.random()
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (1, 1)).save(f"{path}.png")

    monkeypatch.setattr(summary_figures, "draw", sketch)
    return requested


def with_and_without(folder: Path, *overrides: str) -> list[Path]:
    """Folders of a run with dropout: it draws from the same random states, so that one number too many would show."""
    left = []
    for name, every in (("with", "logger.figures_every=2"), ("without", "logger.figures_every=null")):
        raw = config_of(folder / name, *overrides, *FIGURES, "backbone.dropout=0.3", every)
        raw |= {"paths": raw["paths"] | {"cache": str(folder / "cache")}}
        assert run_job(raw, quiet=True) == 0
        left.append(run_folder(raw))
    assert left[0].parts[-4:] == left[1].parts[-4:], "figures are no part of what is trained"
    assert (left[0] / "metrics.csv").read_bytes() == (left[1] / "metrics.csv").read_bytes()
    assert not (left[1] / "figures").exists()
    return left


@pytest.mark.slow
def test_figures_during_training_change_nothing(tmp_path: Path) -> None:
    folder, _ = with_and_without(tmp_path, *SMALL_CLEVR, "train.validate_every=2")
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["step2", "step4"]
    expected = {f"{q}.{e}" for q in EVERYTHING - {"gradients"} for e in ("png", "csv")}
    assert written(folder / "figures" / "step2") == expected
    before, after = (rows_of(folder / "figures" / step / "norms.csv") for step in ("step2", "step4"))
    assert before != after


@pytest.mark.slow
def test_figures_are_of_validation_data_or_else_of_training_data(
    tmp_path: Path, sketched: list[AttentionSummary]
) -> None:
    with_and_without(tmp_path, *SMALL_CLEVR, "train.validate_every=2")
    with_and_without(tmp_path, *SMALL_SCAN)
    assert {item.about.partition(",")[0] for item in sketched[: len(sketched) // 2]} == {"8 examples of val"}
    assert {item.about.partition(",")[0] for item in sketched[len(sketched) // 2 :]} == {"8 examples of train"}


def test_figures_go_to_wandb_and_a_resume_neither_repeats_nor_loses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sketched: list[AttentionSummary]
) -> None:
    """The picture of step 4 is drawn after the last checkpoint: kept, shown again when the step comes again."""
    more = ("train.max_steps=6", "train.checkpoint_every=3")
    raw = config_of(tmp_path, *SMALL_CLEVR, *FIGURES, *more, logger="wandb_offline")
    healthy, drawn, shown = TrainingModule.training_step, [], []
    draws, mirrors = figure_callback.Figures._draw, WandbMirror.pictures

    def broken(self: TrainingModule, batch: object, batch_idx: int) -> object:
        if self.global_step == 4:
            raise RuntimeError("a power cut")
        return healthy(self, batch, batch_idx)

    def draw_noted(self: figure_callback.Figures, module: TrainingModule, step: int, path: Path) -> None:
        drawn.append(step)
        draws(self, module, step, path)

    def show_noted(self: WandbMirror, step: int, files: list[Path]) -> None:
        shown.extend((step, file.stem) for file in files)
        mirrors(self, step, files)

    monkeypatch.setattr(figure_callback.Figures, "_draw", draw_noted)
    monkeypatch.setattr(WandbMirror, "pictures", show_noted)
    monkeypatch.setattr(TrainingModule, "training_step", broken)
    assert run_job(raw, quiet=True) == 1
    assert drawn == [2, 4]
    shown.clear()
    monkeypatch.setattr(TrainingModule, "training_step", healthy)
    assert run_job(raw, quiet=True) == 0
    assert drawn == [2, 4, 6]
    assert shown == [(step, name) for step in (2, 4, 6) for name in ("locality", "norms", "values", "weights")]
    (run,) = (tmp_path / "runs" / "wandb").glob("offline-run-*")
    pictures = [file.name for file in (run / "files" / "media" / "images" / "figures").iterdir()]
    assert len(pictures) == 12 and sum(name.startswith("norms_2_") for name in pictures) == 1


def test_a_figure_that_fails_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(LinearAttention, "weights", refuse)
    raw = config_of(tmp_path, *SMALL_CLEVR, *FIGURES, "model=linear", "trainer.progress=lines")
    assert run_job(raw, quiet=True) == 0
    assert "no figures at step 2 (MemoryError: no room); training goes on" in capsys.readouterr().err
    assert not list((run_folder(raw) / "figures").glob("step?"))


@pytest.mark.slow
@pytest.mark.parametrize("runs", [1, 2])
def test_pictures_of_many_layers_and_heads_fit_a_screen(runs: int) -> None:
    """Six layers of an encoder and a decoder with eight heads; no map covers another one."""
    names = [f"encoder.layers.{i}.attention" for i in range(6)]
    names += [f"decoder.layers.{i}.{part}" for i in range(6) for part in ("attention", "cross")]
    shown, noise = titles(names), np.random.default_rng(0)
    maps = {name: Maps(noise.random((8, 9, 9)), None, None, (9, 9)) for name in names}
    norms = {name: Norms(*[[noise.random(20) for _ in range(8)]] * 2) for name in names}
    locality = {name: Locality(np.stack([RATIOS, RATIOS]), np.ones((2, 1))) for name in names}
    labels = [f"linear, seed {seed}" for seed in range(runs)]
    summaries = [AttentionSummary(label=item, about="", norms=norms, locality=locality) for item in labels]
    figures = [draw_maps([(label, maps) for label in labels], shown, "title", VALUES)]
    figures += [draw_norms(summaries, shown, "title"), draw_locality(summaries, shown, "title")]
    for figure in figures:
        width, height = figure.get_size_inches()
        assert width <= SCREEN[0] + 0.01 and height <= 1.05 * SCREEN[1]
    boxes = [axis.get_position() for axis in figures[0].axes]
    assert len(boxes) == 18 * 8 * runs + 1
    assert not any(item.overlaps(other) for item, other in itertools.combinations(boxes, 2))
    assert all(box.x0 > 0 and box.x1 < 1 and box.y0 > 0 and box.y1 < 1 for box in boxes)
