"""Law 5: forward passes have no graph break."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from support.law_exemptions import network_exemption
from support.model_cases import (
    causal_models,
    distinct_for,
    models_for,
    network_of,
)

CORES = {"linear_l2_ortho", "relative", "transnormer_t2"}
"""all others in the slow tests"""


def test_no_mechanism_has_a_graph_break() -> None:
    """Networks of each way to compute attention, of images where a single model has no sequence network; and one
    decoder of the recurrence with all of its parts."""
    alone = {"channel_gated_delta_rule"} & set(causal_models())
    task = "scan" if models_for("scan") else "sort_of_clevr"
    models = models_for(task)
    check_tracing({task: sorted(CORES & {*models}) or models[:1], "decoder_only": [*alone]})


@pytest.mark.slow
def test_no_decoder_alone_has_a_graph_break() -> None:
    check_tracing({"decoder_only": [*causal_models(), *models_for("scan")[:1]]})


@pytest.mark.slow
@pytest.mark.parametrize("task", ["scan", "sort_of_clevr"])
def test_no_network_has_a_graph_break(task: str) -> None:
    check_tracing({task: distinct_for(task)})


def check_tracing(models: Mapping[str, Sequence[str]]) -> None:
    """Compiles networks of tasks in a process without shape checks (see tests/support/compile_networks.py)."""
    names = [
        f"{task}:{model}"
        for task, chosen in models.items()
        for model in chosen
        if task == "decoder_only" or network_exemption("compile", network_of(model, task)) is None
    ]
    line = [sys.executable, "-m", "support.compile_networks", *names]
    done = subprocess.run(line, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == set(names)
    assert not [line for line in lines if not line.endswith(" ok")]
