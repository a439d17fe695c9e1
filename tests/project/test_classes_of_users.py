"""A kind of task and positions in a user's own package: named by dotted paths, checked, trained."""

from pathlib import Path

import pytest
import torch
from support.incremental_decoding import check_steps
from support.model_cases import backbone_of, model_of, network_of
from support.own_classes import SLOPE, Decay, HalvedParity
from support.parity_task import Parity
from support.random_batches import drawn_batch
from support.tensors import shaken

from attnlab.attention.linear import LinearAttention
from attnlab.attention.positions.base import InScores, Positions
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.config.job_config import check_config, compose_config
from attnlab.data.files.fetch import Folders
from attnlab.tasks.kinds.base import Kind, build_network, kind_of

DECAY = "support.own_classes.Decay"


@pytest.fixture(autouse=True)
def allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_PLUGINS", "support")


def test_a_kind_of_a_users_own(tmp_path: Path) -> None:
    folders = Folders(data=tmp_path, cache=tmp_path)
    halved, plain = (task().prepare(folders).spec for task in (HalvedParity, Parity))
    network = build_network(backbone_of("vanilla", "flip_flop"), model_of("vanilla"), halved).double().eval()
    batch = drawn_batch("flip_flop")
    batch.inputs, batch.targets = batch.inputs % 2, batch.targets % 2
    losses = [kind_of(spec).loss(network, batch)[0].item() for spec in (halved, plain)]
    assert losses[0] == losses[1] / 2


def test_added_scores_of_a_users_own_equal_the_formula() -> None:
    attention = shaken(SoftmaxAttention(8, 2, positions=Decay()).double())
    q, k, v = torch.randn(3, 2, 2, 6, 4, dtype=torch.float64)
    distance = (torch.arange(6)[:, None] - torch.arange(6)).abs()
    weights = (q @ k.transpose(-1, -2) / 2 - SLOPE * distance).softmax(-1)
    torch.testing.assert_close(attention.attend(q, k, v, None, False), weights @ v, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(attention.weights(q, k, None, False), weights, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("positions", [DECAY, "rotary", "relative"])
def test_decoding_step_by_step_equals_the_forward(positions: str) -> None:
    check_steps(network_of("vanilla", "scan", positions=positions))


def test_the_check_knows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["task=scan", f"backbone.positions={DECAY}"]
    assert not check_config(compose_config([*words, "model=vanilla"]))
    (problem,) = check_config(compose_config([*words, "model=linear"]))
    assert f"backbone.positions={DECAY}: not possible with LinearAttention" in str(problem)
    monkeypatch.delenv("ATTNLAB_PLUGINS")
    (problem,) = check_config(compose_config([*words, "model=vanilla"]))
    assert "ATTNLAB_PLUGINS=support" in str(problem)


def test_a_wrong_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.tasks.scan.task.Scan.kind", "encoder_decodr")
    problems = check_config(compose_config(["task=scan", "model=vanilla"]))
    assert "its kind encoder_decodr: no module attnlab.tasks.kinds.encoder_decodr" in str(problems[0])


def test_a_position_or_a_kind_without_needs_is_refused() -> None:
    with pytest.raises(TypeError, match="Silent acts in scores and names no capability in `needs`"):
        type("Silent", (Positions,), {"in_scores": lambda *_: InScores()})
    with pytest.raises(TypeError, match="Silent: needs=supports_rotations; expected one of None, supports_rotation"):
        type("Silent", (Positions,), {"needs": "supports_rotations"})
    for needs, message in (({"encodr": []}, "no slot encodr"), ({"encoder": ["causl"]}, "no form causl")):
        with pytest.raises(TypeError, match=f"Ranking: {message}; expected"):
            type("Ranking", (Kind,), {"needs": needs})
    with pytest.raises(TypeError, match="Ranking declares no `needs`"):
        type("Ranking", (Kind,), {})
    rotation = type("Rotated", (Decay,), {"needs": "supports_rotation"})
    with pytest.raises(ValueError, match="Rotated adds to scores: its `needs` is not supports_position_scores"):
        LinearAttention(8, 2, positions=rotation())
