"""Benchmarks that compare our training step with the published one and with an earlier commit; no time is asserted."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from attnlab.data.batch_order import BatchOrder
from benchmarks import against_commit, published_step
from benchmarks.harness.published_network import PublishedNetwork, PublishedSizes, published_stepper
from benchmarks.harness.timing import Timings, median_interval
from benchmarks.harness.workload import make_workload, step_of_batches
from benchmarks.published_step import from_the_start, require_same_examples, sizes_of

NO_DROPOUT = [f"backbone.{name}dropout=0" for name in ("", "attention_", "attention_output_", "embedding_")]
SMALL = ["backbone.d_model=16", "backbone.n_heads=2", "backbone.n_layers=2", "backbone.d_feed_forward=24"]


def transplant(ours: nn.Module, published: PublishedNetwork, never: tuple[int, ...]) -> None:
    """Writes the weights of our network into the published one."""

    def attention(mine: nn.Module, theirs: nn.Module) -> None:
        theirs.queries.load_state_dict(mine.q_proj.state_dict())
        theirs.merge.load_state_dict(mine.out_proj.state_dict())
        by_head = theirs.keys_values.weight.data.view(theirs.heads, 2, theirs.head_width, -1)
        by_head[:, 0] = mine.k_proj.weight.data.view_as(by_head[:, 0])
        by_head[:, 1] = mine.v_proj.weight.data.view_as(by_head[:, 1])

    for side in ("encoder", "decoder"):
        for mine, theirs in zip(getattr(ours, side).layers, getattr(published, side), strict=True):
            attention(mine.attention, theirs.attention)
            around = [mine.around_attention]
            if mine.cross is not None:
                attention(mine.cross, theirs.cross)
                around.append(mine.around_cross)
            theirs.inner.load_state_dict(mine.feed_forward.inner.state_dict())
            theirs.outer.load_state_dict(mine.feed_forward.outer.state_dict())
            for residual, norm in zip([*around, mine.around_feed_forward], theirs.norms, strict=True):
                norm.load_state_dict(residual.norm.state_dict())
    published.source.load_state_dict(ours.source_embedding.table.state_dict())
    published.target.load_state_dict(ours.target_embedding.table.state_dict())
    published.bias.data.zero_()
    # Published vocabularies have no such rows; in ours they have no share in the softmax.
    published.bias.data[list(never)] = torch.finfo(published.bias.dtype).min


def test_the_published_step_computes_what_ours_computes() -> None:
    """Losses of four training steps from equal weights, without dropout: forward, loss, clipping and Adam agree."""
    workload = make_workload("scan", "vanilla", [*SMALL, *NO_DROPOUT, "train.batch_size=32", "optim.clip_norm=0.5"])
    workload.network.double()
    spec, sizes = workload.prepared.spec, sizes_of(workload.config)
    published = PublishedNetwork(spec, sizes).double()
    transplant(workload.network, published, spec.never_targets)
    ours = step_of_batches(workload, from_the_start(workload, 0))
    theirs = published_stepper(published, sizes, from_the_start(workload, 0))
    collected = [[float(step().detach()) for _ in range(4)] for step in (ours, theirs)]
    np.testing.assert_allclose(collected[1], collected[0], rtol=1e-7)
    assert collected[0][3] < collected[0][0]


def test_the_published_step_has_the_published_sizes_and_dropouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shapes and dropouts as in multi_head_attention.py, transformer.py and transformer_enc_dec.py; 0.99 M weights."""
    workload = make_workload("scan", "vanilla", [])
    assert sizes_of(workload.config) == PublishedSizes()
    network, batch = PublishedNetwork(workload.prepared.spec, PublishedSizes()), next(workload.batches(workload.order))
    rows = workload.prepared.spec.input_vocabulary + workload.prepared.spec.output_vocabulary
    per_attention, feed_forward, norm = 4 * 128 * 128, 2 * 128 * 256 + 256 + 128, 2 * 128
    layers = 3 * (3 * per_attention + 2 * feed_forward + 5 * norm)
    expected = layers + 128 * rows + workload.prepared.spec.output_vocabulary
    assert sum(each.numel() for each in network.parameters()) == expected
    assert expected == sum(each.numel() for each in workload.network.parameters())
    drawn: Counter[tuple[int, ...]] = Counter()

    def counted(x: torch.Tensor, p: float, training: bool, inplace: bool) -> torch.Tensor:
        assert (p, training, inplace) == (0.1, True, False)
        drawn[tuple(x.shape)] += 1
        return x

    monkeypatch.setattr(torch.nn.functional, "dropout", counted)
    assert network.loss(batch).isfinite()
    b, source, target = len(batch), batch.inputs.shape[1], batch.targets.shape[1]
    assert drawn == {
        (b, source, 128): 1 + 3 * 2,
        (b, target, 128): 1 + 3 * 3,
        (b, source, 256): 3,
        (b, target, 256): 3,
        (8 * b, source, source): 3,
        (8 * b, target, target): 3,
        (8 * b, target, source): 3,
    }


def test_a_window_of_bucketed_batches_holds_the_examples_of_as_many_plain_ones() -> None:
    extents = np.random.default_rng(0).integers(1, 9, (1000, 2))

    def order(window: int | None, seed: int = 0) -> BatchOrder:
        return BatchOrder([np.arange(1000)], 10, seed, extents=extents, window=window)

    # 100 batches an epoch
    for first in (0, 4, 96, 100):
        require_same_examples(order(None), order(4), first, 4)
    with pytest.raises(SystemExit, match="batches 0 to 3 hold other examples"):
        require_same_examples(order(None), order(4, seed=1), 0, 4)


def test_bucketed_windows_are_compared_whole_and_equal_batches_one_by_one() -> None:
    seconds = {"published": [[4.0, 2.0]] * 6, "same": [[2.0, 2.0]] * 6, "bucketed": [[1.0, 2.0]] * 6}
    published, same, bucketed = published_step.rows_of(published_step.Windows(seconds), 2, 256, "vanilla")
    assert (published["times as fast"], published["95 % interval"]) == (1.0, "")
    assert (same["times as fast"], same["of"]) == (1.5, "12 steps")
    assert (bucketed["times as fast"], bucketed["of"]) == (2.0, "6 windows")
    assert bucketed["ms a step"] == 1500 and bucketed["examples/s"] == pytest.approx(512 / 3)
    assert bucketed["95 % interval"] == "2.000 to 2.000"


def test_intervals_of_medians_cover_what_they_say() -> None:
    """Below six turns there is none; twenty values: the 6th and the 15th (binomial distribution, 95.9 %)."""
    assert median_interval([1.0] * 5).text() == "-"
    assert median_interval(range(6)).text() == "0.000 to 5.000"
    result = median_interval(range(1, 21))
    assert (result.low, result.high) == (6.0, 15.0)
    assert Timings({"a": [2.0] * 6, "b": [1.0] * 6}).interval("a", "b").text("{:.0f}".format) == "2 to 2"


VERSION = """
class Order:
    def __getitem__(self, number): return [0] * {examples}
class Workload:
    order = Order()
def make_workload(task, model, overrides):
    print("chatter", task, model, overrides)
    return Workload()
def stepper(workload):
    losses = iter(range(1000))
    return lambda: next(losses) + {loss}
"""


def commit(repository: Path, workload: str, tag: str) -> None:
    (repository / "benchmarks" / "harness").mkdir(parents=True, exist_ok=True)
    (repository / "src" / "attnlab").mkdir(parents=True, exist_ok=True)
    (repository / "src" / "attnlab" / "__init__.py").write_text("")
    (repository / "benchmarks" / "harness" / "workload.py").write_text(workload)
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", tag], ["tag", tag]):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)


def test_versions_take_turns_with_their_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """Small stand-ins for the versions: one commit that works, one that fails, and uncommitted changes."""
    monkeypatch.setattr(against_commit, "ROOT", tmp_path)
    commit(tmp_path, VERSION.format(examples=4, loss=10), "works")
    commit(tmp_path, "raise ValueError('not yet written')", "fails")
    (tmp_path / "benchmarks" / "harness" / "workload.py").write_text(VERSION.format(examples=2, loss=20))
    shown: list[dict] = []
    monkeypatch.setattr(against_commit, "show", lambda name, title, rows, environment: shown.extend(rows))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(against_commit.tempfile, "tempdir", str(temporary))

    def run(revision: str) -> None:
        words = [revision, "--workloads", "sort_of_clevr", "--seconds", "0", "--turns", "2", "--threads", "1"]
        monkeypatch.setattr(sys, "argv", ["against_commit", *words, "--here", "a=1"])
        against_commit.main()

    monkeypatch.setattr(against_commit.signal, "signal", lambda *_: None)
    run("works")
    (row,) = shown
    assert (row["loss before"], row["loss now"]) == (19.5, 29.5), "means of the first turn of 20 steps"
    assert row["turns"] == 2 and row["step threads"] == 1
    with pytest.raises(SystemExit, match=r"the code of commit \w{10} cannot run this workload: ValueError: not yet"):
        run("fails")
    with pytest.raises(SystemExit, match="nosuch: no such commit"):
        run("nosuch")
    assert not list(temporary.iterdir()), "unpacked files and caches are removed"
    capsys.readouterr()


def test_seconds_are_divided_by_the_examples_of_the_turn() -> None:
    class Fixed:
        def __init__(self, seconds: float, examples: int) -> None:
            self.answer = {"seconds": seconds, "examples": examples, "loss": seconds}

        def ask(self, steps: int) -> dict[str, float]:
            return self.answer

    times, losses = against_commit.in_turns({"before": Fixed(6.0, 3), "now": Fixed(2.0, 2)}, 5, 0.0, 3)
    assert times.ratio("before", "now") == 2.0 and losses == {"before": 6.0, "now": 2.0}
    assert len(times.seconds["now"]) == 3
