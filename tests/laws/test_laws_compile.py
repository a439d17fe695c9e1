"""Law 5: forward passes have no graph break."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.law_exemptions import network_exemption
from support.model_cases import (
    causal_models,
    distinct_for,
    models_for,
    network_of,
    one_of_each_mechanism,
)


def test_no_mechanism_has_a_graph_break() -> None:
    """The image network of a single model that has no sequence network."""
    task = "scan" if models_for("scan") else "sort_of_clevr"
    check_tracing(task, one_of_each_mechanism(task))


def test_no_decoder_alone_has_a_graph_break() -> None:
    """Of the recurrence with all of its parts, of softmax with gates, and of one with a bidirectional prefix."""
    fast = {"channel_gated_delta_rule", "forgetting", "flash"}
    check_tracing("decoder_only", sorted(fast & set(causal_models())) or models_for("scan")[:1])


@pytest.mark.slow
def test_no_decoder_of_causal_mechanisms_has_a_graph_break() -> None:
    check_tracing("decoder_only", causal_models())


@pytest.mark.slow
@pytest.mark.parametrize("task", ["scan", "sort_of_clevr"])
def test_no_network_has_a_graph_break(task: str) -> None:
    check_tracing(task, distinct_for(task))


def check_tracing(task: str, models: Sequence[str]) -> None:
    """Compiles the networks in a process without shape checks (see tests/support/compile_networks.py)."""
    if task != "decoder_only":
        models = [model for model in models if network_exemption("compile", network_of(model, task)) is None]
    line = [sys.executable, "-m", "support.compile_networks", task, *models]
    done = subprocess.run(line, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert {line.split()[0] for line in lines} == set(models)
    assert not [line for line in lines if not line.endswith(" ok")]
