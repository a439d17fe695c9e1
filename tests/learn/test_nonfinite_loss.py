"""A loss that is not finite stops the run with a message and keeps the last good checkpoint."""

import json
from pathlib import Path

import pytest
import torch
from support.small_runs import BRIEF_SCAN, SMALL_CLEVR, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.data.batch import Batch
from attnlab.learn.training_module import TrainingModule


@pytest.mark.parametrize("small", [BRIEF_SCAN, SMALL_CLEVR], ids=["scan", "sort_of_clevr"])
def test_a_poisoned_step_is_named(
    small: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = config_of(tmp_path, *small, "model=linear_l2_ortho", "train.max_steps=30", "train.checkpoint_every=2")
    healthy = TrainingModule.training_step

    def poisoned(self: TrainingModule, batch: object, batch_idx: int) -> torch.Tensor:
        if self.global_step == 5:
            with torch.no_grad():
                next(self.network.encoder.parameters()).fill_(torch.nan)
        return healthy(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", poisoned)
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "the loss is nan" in message and "at step 5" in message
    assert "16 in the batch" in message and "largest gradient: nan in " in message
    folder = run_folder(raw)
    saved = torch.load(folder / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 4
    assert all(value.isfinite().all() for value in saved["state_dict"].values())
    status = json.loads((folder / "status.json").read_text())
    assert status["state"] == "failed" and "at step 5" in status["reason"]
    assert not (folder / "result.json").exists()

    # The cause mended, the same command goes on from the good checkpoint.
    monkeypatch.setattr(TrainingModule, "training_step", healthy)
    assert run_job(raw, quiet=True) == 0


@pytest.mark.parametrize("last", [4, 30])
def test_weights_that_are_not_finite_are_never_saved(
    last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loss of the step is finite, its update is not: neither a checkpoint nor the last step may keep it."""
    raw = config_of(tmp_path, *BRIEF_SCAN, "model=linear", f"train.max_steps={last}", "train.checkpoint_every=2")
    healthy = TrainingModule.configure_gradient_clipping

    def exploding(self: TrainingModule, optimizer: torch.optim.Optimizer, **rest: object) -> None:
        healthy(self, optimizer)
        if self.global_step == 3:
            self.network.encoder.layers[0].attention.q_proj.weight.grad.fill_(torch.inf)

    monkeypatch.setattr(TrainingModule, "configure_gradient_clipping", exploding)
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "encoder.layers.0.attention.q_proj.weight are not finite after step 4" in message
    assert torch.load(run_folder(raw) / "last.ckpt", weights_only=True)["global_step"] == 2
    assert not (run_folder(raw) / "result.json").exists()


def test_a_learning_rate_that_explodes_fails_the_run(tmp_path: Path) -> None:
    extreme = ("optim.lr=1e30", "optim.clip_norm=null", "train.max_steps=50", "model=linear")
    assert run_job(config_of(tmp_path, *BRIEF_SCAN, *extreme), quiet=True) == 1


@pytest.mark.parametrize("checkpoint_every", [1, 100])
def test_a_late_look_names_the_right_step_and_saves_nothing(
    checkpoint_every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a GPU a loss is looked at one step later, or before weights are saved; here the same on a CPU."""
    more = ("train.max_steps=8", f"train.checkpoint_every={checkpoint_every}")
    raw = config_of(tmp_path, *BRIEF_SCAN, "model=linear", *more)
    started, healthy, batches = TrainingModule.__init__, TrainingModule.training_step, []

    def late(self: TrainingModule, *inputs: object) -> None:
        started(self, *inputs)
        self.loss_monitor.late = True

    def poisoned(self: TrainingModule, batch: Batch, batch_idx: int) -> torch.Tensor:
        batches.append(batch)
        loss = healthy(self, batch, batch_idx)
        if len(batches) == 4:
            # the loss alone: weights that are not finite would be found without it
            self.metrics["train/loss"] = self.metrics["train/loss"] * torch.nan
        return loss

    monkeypatch.setattr(TrainingModule, "__init__", late)
    monkeypatch.setattr(TrainingModule, "training_step", poisoned)
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "the loss is nan at step 3" in message and "largest gradient by now: " in message
    examples = ", ".join(map(str, batches[3].index.tolist()[:8]))
    assert f"on training examples {examples}, ..." in message
    # seen before its step was saved, or when the next step was under way
    assert len(batches) == (4 if checkpoint_every == 1 else 5)
    assert (run_folder(raw) / "last.ckpt").exists() == (checkpoint_every == 1)
    if checkpoint_every == 1:
        assert torch.load(run_folder(raw) / "last.ckpt", weights_only=True)["global_step"] == 3
