"""Training steps never make Python wait for a GPU.

On a CPU fake tensors stand in: they have no values, so every question for one (`int`, `tolist`, `bool`, `nonzero`) is
an error. On a GPU torch reports every wait. Left out are losses over large vocabularies, which wait
(attnlab.kernels.cross_entropy), and losses that are shown or recorded.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from support.gpu import requires_gpu
from support.model_cases import SPECS, backbone_of, config_of
from support.random_batches import drawn_batch
from support.slow_cases import slow_except
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from attnlab.data.batch import Batch
from attnlab.data.batch_order import BatchOrder
from attnlab.data.examples import SequencePairs, resident
from attnlab.kernels.drawn_rows import fill_from_host
from attnlab.learn.callbacks import redraw
from attnlab.learn.train_stream import TrainStream, train_loader
from attnlab.learn.training_module import TrainingModule
from attnlab.tasks.kinds.base import build_network

CASES = [("scan", "linear_l2_ortho"), ("scan", "performer"), ("scan", "relative"), ("sort_of_clevr", "vanilla")]
CASES += [("lra_listops", model) for model in ("bigbird", "informer", "reformer", "skyformer", "linformer")]


def module_of(task: str, model: str, device: str, limit: int | None = None) -> TrainingModule:
    config = config_of(model, task)
    config = replace(config, train=replace(config.train, max_tokens=limit))
    network = build_network(backbone_of(model, task, dropout=0.1), config.model, SPECS[task])
    # only a GPU's network is moved: fake parameters cannot be
    network = (network if device == "cpu" else network.to(device)).train()
    module = TrainingModule(config, network, SPECS[task])
    module.loss_monitor.late = True
    return module


def take_steps(module: TrainingModule, batches: list[Batch]) -> None:
    """Steps as Lightning takes them, with a redraw after each."""
    optimizer = module.configure_optimizers()["optimizer"]
    for number, batch in enumerate(batches, start=1):
        loss = module.training_step(batch, 0)
        module.optimizer_zero_grad(0, 0, optimizer)
        loss.backward()
        module.on_after_backward()
        module.configure_gradient_clipping(optimizer)
        optimizer.step()
        redraw(module.network, 0, 1000 * number)


def known(batch: Batch) -> Batch:
    """The batch with its lengths on the host, as the training stream gives them; here the padded ones."""
    return replace(batch, host_extents=np.tile(batch.widths or (1,), (len(batch), 1)))


@pytest.mark.parametrize(("task", "model"), slow_except(CASES, CASES[:4]))
def test_no_value_is_asked_for(task: str, model: str) -> None:
    with FakeTensorMode():
        take_steps(module_of(task, model, "cpu"), [drawn_batch(task)])


def test_no_value_is_asked_for_to_cut_a_batch() -> None:
    with FakeTensorMode():
        batch = known(drawn_batch("scan"))
        assert len(batch.pieces(12)) == 3
        take_steps(module_of("scan", "linear", "cpu", limit=12), [batch])


def test_the_stream_knows_the_lengths_of_its_batches() -> None:
    pairs = SequencePairs.of([[3] * n for n in (2, 9, 4)], [[3] * n for n in (5, 1, 2)], 0)
    batch = next(iter(TrainStream(pairs, BatchOrder([np.arange(3)], 3, 0), 0, round_lengths=True)))
    assert np.array_equal(batch.host_extents, torch.stack(batch.extents, 1).numpy())
    kept = replace(batch.to("meta"), index=batch.index)
    assert np.array_equal(kept.known_extents(), batch.host_extents)


def test_what_is_drawn_on_the_host_leaves_page_locked_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the type of the buffer: with another one torch copies by way of ordinary memory."""
    collected = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: collected.append(self.dtype) or self)
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, values, non_blocking=False: collected.append(non_blocking))
    with FakeTensorMode():
        fill_from_host(torch.zeros(3, device="cuda"), torch.ones(3, dtype=torch.float64))
    assert collected == [torch.float32, True]


@pytest.fixture
def waits_are_errors() -> Iterator[None]:
    yield
    torch.cuda.set_sync_debug_mode("default")


@requires_gpu
@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("place", ["host", "device"])
@pytest.mark.parametrize("model", ["linear_l2_ortho", "vanilla", "performer"])
def test_a_gpu_is_never_waited_for(model: str, place: str, limit: int | None, waits_are_errors: None) -> None:
    lengths = np.random.default_rng(0).integers(1, 12, (60, 2)).tolist()
    pairs = SequencePairs.of([[3] * n for n, _ in lengths], [[3] * m for _, m in lengths], 0)
    examples = pairs if place == "host" else resident({"train": pairs}, torch.device("cuda"))["train"]
    batches = iter(train_loader(examples, BatchOrder([np.arange(60)], 16, 0), 0, workers=0, pin=True))
    module = module_of("scan", model, "cuda", limit)
    # the first steps allocate and choose kernels
    take_steps(module, [next(batches).to("cuda") for _ in range(2)])
    torch.cuda.set_sync_debug_mode("error")
    take_steps(module, [next(batches).to("cuda") for _ in range(2)])
    torch.cuda.set_sync_debug_mode("default")
    assert all(parameter.isfinite().all() for parameter in nn.ParameterList(module.network.parameters()))
