"""Computations in float64 use no shorter number format.

A part in float32 leaves its rounding, which differs by machine and compiler, in every later number.
"""

import math
from dataclasses import replace

import pytest
import torch
from support.model_cases import SPECS, backbone_of, config_of, network_of, one_of_each_mechanism
from support.random_batches import drawn_batch
from support.slow_cases import slow_except
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.attention.positions.sinusoidal import patch_positions, sinusoidal
from attnlab.tasks.kinds.base import build_network, kind_of

EVERY_MECHANISM = ("scan", "sort_of_clevr", "flip_flop")
"""tasks whose networks have every mechanism in every form between them"""
SHORTER = {torch.float32, torch.float16, torch.bfloat16}


class Shorter(TorchDispatchMode):
    """The operations that give a tensor in a shorter format than float64."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        out = operation(*args, **(kwargs or {}))
        inputs = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.found |= {f"{operation}: {leaf.dtype}" for leaf in inputs if leaf.dtype in SHORTER}
        return out


@pytest.mark.parametrize("task", slow_except(SPECS, ["scan", "sort_of_clevr"]))
def test_a_step_and_an_evaluation_in_float64_hold_no_shorter_number(task: str) -> None:
    """Forward, backward and the records of examples, with every mechanism; two models have the other kinds of task."""
    kind = kind_of(SPECS[task])
    for model in one_of_each_mechanism(task) if task in EVERY_MECHANISM else ("vanilla", "linear_l2_ortho"):
        network, batch = network_of(model, task, dropout=0.1), drawn_batch(task)
        with Shorter() as shorter:
            sum(kind.loss(network.train(), batch)).backward()
            kind.scores(network.eval(), batch, 8)
        assert not shorter.found, f"{model}: {sorted(shorter.found)}"


def test_a_number_that_is_predicted_keeps_its_format() -> None:
    spec = replace(SPECS["lra_listops"], kind="regression", n_classes=1)
    network = build_network(backbone_of("linear", "lra_listops"), config_of("linear", "lra_listops").model, spec)
    for format, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        assert kind_of(spec).scores(network.to(format), drawn_batch("lra_listops"), 8)["predicted"].dtype == expected


def test_position_tables_are_exact_to_float64() -> None:
    like = torch.zeros((), dtype=torch.float64)
    table, patches = sinusoidal(300, 6, like), patch_positions(25, 6, like)
    for row, column in ((299, 0), (299, 1), (24, 2), (24, 5)):
        wave = math.cos if column % 2 else math.sin
        assert table[row, column].item() == pytest.approx(wave(row / 10000 ** (column // 2 / 3)), abs=1e-12)
        if row < 25:
            expected = wave(row / 10000 ** (column / 3)) / (1 + math.exp(-1))
            assert patches[row, column].item() == pytest.approx(expected, abs=1e-12)
