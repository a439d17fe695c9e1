"""Ids that are never a target: outside the softmax, without gradient, never decoded."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support.model_cases import SPECS, backbone_of, config_of
from support.random_batches import drawn_batch
from support.tensors import gradients, masks, shaken
from torch import Tensor, nn

from attnlab.data.batch import SequenceBatch
from attnlab.data.files.fetch import Folders
from attnlab.data.task_spec import TaskSpec
from attnlab.nn.greedy_decoding import greedy
from attnlab.tasks.flip_flop.task import FlipFlop
from attnlab.tasks.kinds.base import build_network, kind_of
from attnlab.tasks.scan.task import Scan

NEVER = {
    "scan": replace(SPECS["scan"], never_targets=(0, 2)),
    "flip_flop": replace(SPECS["flip_flop"], never_targets=(0, 1)),
    "wikitext103_masked": replace(SPECS["wikitext103_masked"], never_targets=(0, 1, 2, 3)),
}
TASKS = tuple(NEVER)


def network_for(task: str, **changes: object) -> nn.Module:
    torch.manual_seed(0)
    backbone = backbone_of("linear", task, **changes)
    return shaken(build_network(backbone, config_of("linear", task).model, NEVER[task]).double().eval())


def kept_ids(spec: TaskSpec) -> list[int]:
    vocabulary = spec.output_vocabulary or spec.input_vocabulary
    return [number for number in range(vocabulary) if number not in spec.never_targets]


def loss_over(kept: list[int], network: nn.Module, batch: object) -> Tensor:
    """The mean loss of a softmax over some ids alone, token by token, from the output's own weights."""
    if isinstance(batch, SequenceBatch):
        read = F.pad(batch.targets[:, :-1], (1, 0), value=1)
        seen: list[Tensor] = []
        hook = network.output.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
        network(batch.inputs, batch.input_mask, read, batch.target_mask)
        hook.remove()
        hidden, scored = seen[0], batch.target_mask
    else:
        hidden, scored = network(batch.inputs, batch.mask)[0], batch.scored
    linear, losses = network.output.linear, []
    for row, target in zip(hidden[scored], batch.targets[scored], strict=True):
        scores = torch.stack([linear.weight[number] @ row + linear.bias[number] for number in kept])
        losses.append(scores.logsumexp(0) - scores[kept.index(int(target))])
    return sum(losses) / len(losses)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_the_loss_is_that_of_a_softmax_without_them(task: str, tied: bool) -> None:
    """Loss and all gradients, padded targets included."""
    network, batch = network_for(task, tied_output=tied), drawn_batch(task)
    loss, _ = kind_of(NEVER[task]).loss(network, batch)
    expected = loss_over(kept_ids(NEVER[task]), network, batch)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    actual, wanted = gradients(loss, network), gradients(expected, network)
    for name, value in actual.items():
        torch.testing.assert_close(value, wanted[name], rtol=1e-9, atol=1e-12, msg=name)
    assert not actual["output.linear.bias"][list(NEVER[task].never_targets)].any()
    assert actual["output.linear.bias"].any()


@pytest.mark.parametrize("task", ["flip_flop", "wikitext103_masked"])
def test_the_evaluated_loss_is_the_same(task: str) -> None:
    network, batch = network_for(task), drawn_batch(task)
    with torch.no_grad():
        network.output.linear.bias[list(NEVER[task].never_targets)] = 50
    records = kind_of(NEVER[task]).scores(network, batch, 0)
    expected = loss_over(kept_ids(NEVER[task]), network, batch)
    torch.testing.assert_close(records["loss"].sum() / records["tokens"].sum(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("task", TASKS)
def test_losses_and_gradients_are_finite_in_half_precision(task: str, dtype: torch.dtype) -> None:
    network, batch = network_for(task).float(), drawn_batch(task)
    with torch.autocast("cpu", dtype):
        loss, _ = kind_of(NEVER[task]).loss(network, batch)
    assert loss.isfinite()
    assert all(value.isfinite().all() for value in gradients(loss, network).values())


def test_they_are_never_written() -> None:
    network, spec = network_for("scan", tied_output=False), NEVER["scan"]
    with torch.no_grad():
        network.output.linear.bias[list(spec.never_targets)] = 1e6
        written = greedy(network, torch.randint(7, (8, 5)), masks([5] * 8, 5), 9, spec.end_id)
    assert not set(written.tokens.unique().tolist()) & set(spec.never_targets)


def test_they_add_no_weight_to_a_checkpoint() -> None:
    with_them, without = (
        build_network(backbone_of("linear", "scan"), config_of("linear").model, spec).state_dict().keys()
        for spec in (NEVER["scan"], SPECS["scan"])
    )
    assert with_them == without


def test_scan_hides_all_ids_without_a_target_and_no_other() -> None:
    """And so a network that knows nothing begins at ln 7: six actions and the end."""
    prepared = Scan().prepare(None)
    seen = {int(token) for subset in prepared.subsets.values() for row in subset.targets for token in row}
    assert sorted(seen) == kept_ids(prepared.spec)
    network = build_network(backbone_of("linear", "scan", tied_output=False), config_of("linear").model, prepared.spec)
    nn.init.zeros_(network.output.linear.weight)
    nn.init.zeros_(network.output.linear.bias)
    batch = prepared.subsets["train"].batch(list(range(0, 9000, 1000)))
    assert kind_of(prepared.spec).loss(network, batch)[0].item() == pytest.approx(math.log(7))


def test_flip_flop_hides_what_its_language_has_not(tmp_path: Path) -> None:
    prepared = FlipFlop(length=32, train_sequences=50, test_sequences=50).prepare(Folders(tmp_path, tmp_path))
    tokens = prepared.subsets["train"].tokens(range(50))
    assert sorted(set(tokens.flatten().tolist())) == kept_ids(prepared.spec)
