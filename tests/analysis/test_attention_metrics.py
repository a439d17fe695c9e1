"""Norms of keys and similarity of values as metrics of a run: their numbers, their names, and training beside them."""

import itertools
import json
import math
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import torch
from support.model_cases import SPECS, config_of, network_of
from support.small_runs import SMALL_CLEVR, run_job, stop_after
from support.small_runs import config_of as run_config
from torch import Tensor

from attnlab.analysis import attention_metrics as attention_metrics_module
from attnlab.analysis.attention_labels import metric_names
from attnlab.analysis.attention_metrics import _local, attention_metrics
from attnlab.analysis.attention_tensors import diagnose
from attnlab.attention.base import Attention
from attnlab.config.run_identity import run_folder
from attnlab.data.batch import SequenceBatch
from attnlab.learn.metric_units import text, unit_of
from attnlab.nn.attention_observer import observed
from attnlab.report.cli import report_main
from attnlab.report.runs.select_runs import select_glob
from attnlab.run.run_folder import MetricsFile
from attnlab.tasks.kinds.base import kind_of

LENGTHS = torch.tensor([[4, 5], [2, 1], [1, 3], [3, 2]])


class Pairs:
    """Four pairs of sequences, padded to their batch."""

    lengths = LENGTHS[:, 1].numpy()

    def __len__(self) -> int:
        return len(LENGTHS)

    def batch(self, numbers: np.ndarray) -> SequenceBatch:
        torch.manual_seed(3)
        tables, lengths = [torch.randint(6, (4, size)) for size in (4, 5)], LENGTHS[numbers]
        longest = lengths.max(0).values.tolist()
        inputs, targets = (table[numbers, :size] for table, size in zip(tables, longest, strict=True))
        return SequenceBatch(
            index=torch.as_tensor(numbers),
            inputs=inputs,
            input_lengths=lengths[:, 0],
            targets=targets,
            target_lengths=lengths[:, 1],
        )


KINDS = ("query_norm", "key_norm", "value_cosine", "largest_weight", "local_weight")


def plain(k: Tensor, v: Tensor, lengths: list[int]) -> tuple[float, float]:
    """Norm of keys and cosine of values in loops over sequences, heads and positions."""
    norms, similarities = [], []
    for keys, values, length in zip(k, v, lengths, strict=True):
        norms += [key.norm().item() for head in keys for key in head[:length]]
        for head in values if length > 1 else []:
            pairs = itertools.permutations(head[:length], 2)
            similarities.append(mean((a @ b / (a.norm() * b.norm())).item() for a, b in pairs))
    return mean(norms), mean(similarities)


@pytest.mark.parametrize("size", [4, 3, 1])
def test_numbers_equal_plain_loops_in_batches_of_any_size(size: int) -> None:
    network, examples = network_of("linear_l2_ortho", "scan").double(), Pairs()
    train = config_of("linear").train
    train.eval_batch_size, train.precision = size, "64-true"
    actual = attention_metrics(network, examples, SPECS["scan"], train)
    whole = examples.batch(np.arange(4))
    with torch.no_grad(), observed(network.eval()) as uses:
        kind_of(SPECS["scan"]).loss(network, whole)
    names = metric_names(uses)
    crosses = [name for name in names.values() if name.endswith("cross")]
    assert actual.keys() == {f"{name}/{kind}" for name in names.values() for kind in KINDS} - {
        f"{name}/local_weight" for name in crosses
    }
    for name, use in uses.items():
        lengths = LENGTHS[:, 1 if name.endswith("attention") and name.startswith("decoder") else 0].tolist()
        expected = plain(use.seen.k, use.seen.v, lengths)
        assert [actual[f"{names[name]}/{kind}"] for kind in ("key_norm", "value_cosine")] == pytest.approx(expected)
        rows = LENGTHS[:, 1 if name.startswith("decoder") else 0].tolist()
        assert actual[f"{names[name]}/query_norm"] == pytest.approx(plain(use.seen.q, use.seen.v, rows)[0])
        weights = use.attention.weights(use.seen.q, use.seen.k, use.seen.mask, use.seen.causal).detach()
        largest = [
            (row.max() / row.mean()).item()
            for sample, n, m in zip(weights, rows, lengths, strict=True)
            for head in sample
            for row in (head[i, : i + 1 if use.seen.causal else m] for i in range(n))
        ]
        assert actual[f"{names[name]}/largest_weight"] == pytest.approx(mean(largest))


def test_shares_of_near_positions() -> None:
    # a tenth of ten positions is one: the query's own
    weights = torch.eye(10)[None, None].double() * 0.5 + 0.05
    real = torch.ones(1, 10, dtype=torch.bool)
    total, count = _local(weights, real)
    assert (total / count, count) == (pytest.approx(0.55), 10)
    total, count = _local(weights[..., :5, :5], real[:, :5])
    assert total / count == pytest.approx(0.5 * 0.55 / 0.75), "half a position"


def test_pieces_change_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    network, train = network_of("linear", "scan").double(), config_of("linear").train
    train.eval_batch_size = 4
    whole = attention_metrics(network, Pairs(), SPECS["scan"], train)
    monkeypatch.setattr(attention_metrics_module, "MOST_PAIRS", 1)
    sizes: list[int] = []
    monkeypatch.setattr(
        attention_metrics_module,
        "diagnose",
        lambda network, piece, *rest: sizes.append(len(piece)) or diagnose(network, piece, *rest),
    )
    assert attention_metrics(network, Pairs(), SPECS["scan"], train) == pytest.approx(whole)
    assert sizes == [1] * 4


def test_weights_of_long_examples_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_metrics_module, "LONGEST", 4)
    network, train = network_of("linear", "scan").double(), config_of("linear").train
    train.eval_batch_size = 4
    actual = attention_metrics(network, Pairs(), SPECS["scan"], train)
    assert {name.rpartition("/")[2] for name in actual} == {"query_norm", "key_norm", "value_cosine"}


def test_values_that_are_zero_parallel_or_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    network, train = network_of("linear", "scan").double(), config_of("linear").train
    cases = {"zero": (torch.zeros_like, 0.0), "parallel": (torch.ones_like, 1.0)}
    for make, expected in cases.values():
        monkeypatch.setattr(Attention, "value_heads", lambda self, v, make=make: make(v))
        actual = attention_metrics(network, Pairs(), SPECS["scan"], train)
        cosines = [value for name, value in actual.items() if name.endswith("cosine")]
        assert cosines == pytest.approx([expected] * 6)
    monkeypatch.setattr(Pairs, "__len__", lambda self: 1)
    monkeypatch.setattr(Pairs, "lengths", np.array([1]))
    examples = Pairs()
    monkeypatch.setattr(examples, "batch", lambda numbers: Pairs.batch(examples, np.array([2])))
    actual = attention_metrics(network, examples, SPECS["scan"], train)
    assert "encoder/layer_0/key_norm" in actual
    assert "encoder/layer_0/value_cosine" not in actual, "one position has no pair"


def test_names_of_attentions_in_metrics() -> None:
    both = [name for n in (0, 1) for name in (f"decoder.layers.{n}.attention", f"decoder.layers.{n}.cross")]
    both = ["encoder.layers.0.attention", *both]
    expected = [
        "encoder/layer_0",
        "decoder/layer_0",
        "decoder/layer_0/cross",
        "decoder/layer_1",
        "decoder/layer_1/cross",
    ]
    assert list(metric_names(both).values()) == expected
    path = "encoder.layers.0.attention"
    # weights shared by all layers, and by every second one
    assert list(metric_names([path, f"{path}#2"]).values()) == ["layer_0", "layer_1"]
    other = path.replace("0", "1")
    shared = metric_names([path, other, f"{path}#2", f"{other}#2"])
    assert list(shared.values()) == [f"layer_{number}" for number in range(4)]
    parts = [f"{path}.attentions.{number}" for number in (0, 1)]
    assert list(metric_names(parts).values()) == ["layer_0/part_0", "layer_0/part_1"]
    assert metric_names(["another"]) == {"another": "another"}


def test_units() -> None:
    assert text("val/layer_0/key_norm", 3.14159) == "3.14"
    assert text("val/layer_0/value_cosine", -0.12345) == "-0.123"
    assert unit_of("train/gradient_norm").name == "gradient norm"


SMALL = (*SMALL_CLEVR, "train.max_steps=10", "train.validate_every=4", "train.checkpoint_every=3", "model=performer")


def rows_of(folder: Path) -> list[tuple[int, str, float]]:
    return MetricsFile(folder / "metrics.csv").rows()


def is_diagnosed(name: str) -> bool:
    return name.endswith(KINDS)


def trained(folder: Path, *overrides: str) -> Path:
    raw = run_config(folder, *SMALL, "backbone.dropout=0.3", *overrides)
    assert run_job(raw, quiet=True) == 0
    return run_folder(raw)


@pytest.mark.parametrize("selection", ["last_step", "best_validation"])
def test_training_is_the_same_beside_them_and_reports_have_them(
    selection: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With dropout, so that one random number too many would show; the reported numbers are of the tested weights."""
    rule = f"train.selection={selection}"
    plain, measured = trained(tmp_path / "a", rule), trained(tmp_path / "b", rule, "train.diagnose_every=1")
    assert plain.relative_to(tmp_path / "a") == measured.relative_to(tmp_path / "b"), "no part of a run's identity"
    rows = rows_of(measured)
    assert [row for row in rows if not is_diagnosed(row[1])] == rows_of(plain)
    diagnosed = [row for row in rows if is_diagnosed(row[1])]
    assert [row[:2] for row in diagnosed[:10]] == [(1, f"val/layer_{n}/{kind}") for n in (0, 1) for kind in KINDS]
    assert len(diagnosed) == 10 * 10 and all(math.isfinite(value) for *_, value in diagnosed)
    result = json.loads((measured / "result.json").read_text())
    step = result["selection"]["step"]
    assert {n: v for n, v in result["metrics"].items() if is_diagnosed(n)} == {
        name: value for at, name, value in diagnosed if at == step
    }
    metric = "val/layer_1/value_cosine"
    [run] = select_glob(str(measured)).runs
    assert run.value(metric) == result["metrics"][metric]
    assert report_main([f"runs={measured}", f"columns={metric}", f"out={tmp_path / 'report'}"]) == 0
    assert f"{result['metrics'][metric]:.3f}" in capsys.readouterr().out


def test_a_resumed_run_measures_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = "train.diagnose_every=2"
    whole = trained(tmp_path / "whole", every)
    with monkeypatch.context() as patch:
        stop_after(5, patch)
        raw = run_config(tmp_path / "cut", *SMALL, "backbone.dropout=0.3", every)
        assert run_job(raw, quiet=True) != 0
    assert rows_of(trained(tmp_path / "cut", every)) == rows_of(whole)
