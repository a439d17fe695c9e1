"""Random features are redrawn between steps when due, as a function of seed, step and position in the network."""

from pathlib import Path

import pytest
import torch
from support.model_cases import network_of
from support.small_runs import SMALL_CLEVR, assert_same_run, config_of, run_job
from torch import Tensor, nn

from attnlab.attention.performer import Performer
from attnlab.config.run_identity import run_folder
from attnlab.learn.callbacks import redraw, redrawn_modules
from attnlab.learn.training_module import TrainingModule
from attnlab.run.read_checkpoints import network_weights

EVERY_TWO = "{_target_: attnlab.attention.performer.Performer, redraw_every: 2}"
RUN = (
    *SMALL_CLEVR,
    "model=performer",
    f"model.encoder=[{{share: 1.0, attention: {EVERY_TWO}}}]",
    "backbone.share_layers=false",
    "train.max_steps=40",
    "train.checkpoint_every=9",
    "train.accumulate=2",
)


def make(*every: int | None, d_model: int = 8) -> nn.ModuleList:
    """Attentions with these intervals, the first one twice."""
    attentions = [Performer(d_model, 2, redraw_every=steps) for steps in every]
    return nn.ModuleList([*attentions, attentions[0]])


def projections(network: nn.Module) -> list[Tensor]:
    return [module.projection.clone() for module in network.modules() if isinstance(module, Performer)]


def test_each_is_redrawn_when_it_is_due_and_once() -> None:
    network = make(2, None, 3)
    assert redrawn_modules(network) == [network[0], network[2]]
    for step in range(1, 13):
        before = projections(network)
        redraw(network, 0, step)
        changed = [not torch.isclose(a, b).any() for a, b in zip(before, projections(network), strict=True)]
        assert changed == [step % 2 == 0, False, step % 3 == 0]


def test_draws_depend_on_seed_step_and_place_alone() -> None:
    network, drawn = make(1, 1), {}
    for seed in (0, 1, 2**32 - 1):
        for step in (1, 2, 3):
            torch.rand(seed % 7)
            redraw(network, seed, step)
            drawn |= {(seed, step, position): value for position, value in enumerate(projections(network))}
    fresh = make(1, 1)
    redraw(fresh, 1, 2)
    assert torch.equal(projections(fresh)[1], drawn[1, 2, 1])
    numbers = torch.stack(list(drawn.values())).flatten()
    assert len(numbers.unique()) == len(numbers) == 3 * 3 * 2 * 5 * 4


def test_the_global_random_state_is_left_alone() -> None:
    before = torch.get_rng_state()
    network = make(1)
    torch.set_rng_state(before)
    redraw(network, 0, 1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("model", "count"), [("vanilla", 0), ("linear_rms_ortho", 0), ("performer_relu", 3 * 2)])
def test_a_network_knows_what_is_redrawn(model: str, count: int) -> None:
    """Two layers: encoder, decoder and cross-attention of each; shared layers are one."""
    assert len(redrawn_modules(network_of(model, "scan"))) == count
    assert len(redrawn_modules(network_of(model, "scan", share_layers=True))) == count // 2


@pytest.mark.slow
def test_stopped_and_resumed_equals_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken off after step 11, resumed from 9; broken off after 23, resumed from 18, when a draw is due."""
    whole, cut = (config_of(tmp_path / name, *RUN) for name in ("whole", "cut"))
    seen: dict[int, list[Tensor]] = {}
    healthy = TrainingModule.training_step

    def watched(self: TrainingModule, batch: object, batch_idx: int) -> Tensor:
        seen[self.global_step] = projections(self.network)
        return healthy(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", watched)
    assert run_job(whole, quiet=True) == 0
    for last in (11, 23):

        def broken(self: TrainingModule, batch: object, batch_idx: int, last: int = last) -> Tensor:
            if self.global_step == last:
                raise RuntimeError("broken off")
            return healthy(self, batch, batch_idx)

        monkeypatch.setattr(TrainingModule, "training_step", broken)
        assert run_job(cut, quiet=True) == 1
    monkeypatch.setattr(TrainingModule, "training_step", healthy)
    assert run_job(cut, quiet=True) == 0
    assert_same_run(run_folder(whole), run_folder(cut))
    for step in range(1, 40):
        same = [torch.equal(a, b) for a, b in zip(seen[step - 1], seen[step], strict=True)]
        assert same == [step % 2 == 1] * 2


def test_a_checkpoint_has_what_its_step_was_trained_with(tmp_path: Path) -> None:
    """Saved at step 4, when a draw is due: it is made when step 5 begins, so the draw of step 2 is saved and tested."""
    raw = config_of(tmp_path, *RUN, "train.max_steps=4")
    assert run_job(raw, quiet=True) == 0
    weights = network_weights(torch.load(run_folder(raw) / "last.ckpt", weights_only=True))
    saved = [value for name, value in weights.items() if name.endswith("projection")]
    network = make(2, 2, d_model=16)
    for step in (2, 4):
        redraw(network, 0, step)
        for value, drawn in zip(saved, projections(network), strict=True):
            assert torch.equal(value, drawn) == (step == 2)
