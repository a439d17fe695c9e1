"""Learning-rate schedules and gradient clipping."""

import math
from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
import torch
from support.model_cases import SPECS, config_of, network_of
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from attnlab.config.schema import Optim
from attnlab.learn.optimizers import make_optimizer, schedule_of, warmup_notes, with_schedule
from attnlab.learn.training_module import TrainingModule

OPTIM = Optim(lr=2.0)


def rates(steps: int, **changes: object) -> list[float]:
    """The rate of each step."""
    optim = replace(OPTIM, **changes)
    optimizer = make_optimizer(optim, nn.Linear(1, 1).parameters())
    schedule = with_schedule(optimizer, optim, steps).get("lr_scheduler", {}).get("scheduler")
    collected = []
    for _ in range(steps):
        collected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if schedule is not None:
            schedule.step()
    return collected


def test_constant_and_its_warmup() -> None:
    assert rates(3) == [2.0] * 3
    assert rates(5, warmup_steps=3) == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])


def test_a_warmup_may_be_a_share_of_the_steps() -> None:
    assert rates(4, warmup_share=0.5) == rates(4, warmup_steps=2)
    assert rates(4, warmup_share=0.5, warmup_steps=1) == rates(4, warmup_steps=1)
    assert rates(50, schedule="one_cycle", warmup_share=0.5) == rates(50, schedule="one_cycle", warmup_steps=25)


def test_falling_schedules_begin_at_the_peak_and_end_near_zero() -> None:
    assert rates(5, schedule="linear", warmup_steps=1) == pytest.approx([1.0, 2.0, 1.5, 1.0, 0.5])
    cosine = rates(5, schedule="cosine", warmup_steps=1)
    assert cosine == pytest.approx([1.0, *(1 + math.cos(math.pi * k / 4) for k in range(4))])
    result = rates(100, schedule="inverse_sqrt", warmup_steps=9)
    assert result[9] == 2.0 and result[39] == pytest.approx(2 * math.sqrt(10 / 40))
    assert result[:10] == sorted(result[:10]) and result[9:] == sorted(result[9:], reverse=True)


@pytest.mark.parametrize(("schedule", "anneal"), [("one_cycle", "cos"), ("one_cycle_linear", "linear")])
@pytest.mark.parametrize(("steps", "warmup"), [(101, 20), (10, None), (7, 3), (50, 2)])
def test_one_cycle_is_that_of_torch(schedule: str, anneal: str, steps: int, warmup: int | None) -> None:
    optimizer = make_optimizer(OPTIM, nn.Linear(1, 1).parameters())
    share = 0.3 if warmup is None else warmup / steps
    theirs = OneCycleLR(
        optimizer, 2.0, total_steps=steps, pct_start=share, anneal_strategy=anneal, cycle_momentum=False
    )
    expected = []
    for _ in range(steps - 1):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert rates(steps, schedule=schedule, warmup_steps=warmup)[:-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("schedule", ["one_cycle", "one_cycle_linear", "linear", "cosine", "inverse_sqrt", "constant"])
def test_a_warmup_longer_than_the_run_rises_to_its_end(schedule: str) -> None:
    for steps in (1, 2, 6):
        result = rates(steps, schedule=schedule, warmup_steps=1000)
        assert result == sorted(result) and result[0] > 0 and result[-1] <= 2.0


@pytest.mark.parametrize("schedule", ["one_cycle", "one_cycle_linear", "linear", "cosine", "inverse_sqrt"])
@pytest.mark.parametrize("warmup", [0, 1, 2, 5])
def test_no_length_is_too_short(schedule: str, warmup: int) -> None:
    """torch's own one-cycle schedule divides by zero at a warm-up of one step."""
    for steps in (1, 2, 3):
        assert all(0 < rate <= 2.0 for rate in rates(steps, schedule=schedule, warmup_steps=warmup))


def test_single_entries_are_clipped_before_the_norm() -> None:
    config = config_of("linear")
    network = network_of("linear", "scan")
    config = replace(config, optim=replace(config.optim, clip_value=0.5, clip_norm=None))
    module = TrainingModule(config, network, SPECS["scan"])
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, -3.0)
    optimizer = make_optimizer(config.optim, network.parameters())
    module.configure_gradient_clipping(optimizer)
    assert all((parameter.grad == -0.5).all() for parameter in network.parameters())
    numbers = sum(parameter.numel() for parameter in network.parameters())
    assert module.metrics["train/gradient_norm"].item() == pytest.approx(0.5 * math.sqrt(numbers))


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_checkpoint_of_one_form_goes_on_in_the_other(before: bool, dtype: torch.dtype) -> None:
    """The optimiser keeps its own form and takes over the moments: both forms give the same weights up to rounding."""
    ends = []
    for after in (before, not before):
        torch.manual_seed(0)
        weight = nn.Parameter(torch.randn(5, dtype=dtype))
        slopes = torch.randn(6, 5, dtype=dtype)
        first = make_optimizer(OPTIM, [weight], fused=before)
        _updated(first, weight, slopes[:3])
        second = make_optimizer(OPTIM, [weight], fused=after)
        second.load_state_dict(first.state_dict())
        [group] = second.param_groups
        # None, not False: False would also turn off the form that updates all parameters together on a GPU
        assert group["fused"] is (True if after else None) and group["foreach"] is None
        _updated(second, weight, slopes[3:])
        ends.append(weight.detach())
    torch.testing.assert_close(*ends)


def _updated(optimizer: torch.optim.Optimizer, weight: nn.Parameter, slopes: torch.Tensor) -> None:
    for slope in slopes:
        weight.grad = slope.clone()
        optimizer.step()


def test_a_constant_rate_has_no_schedule() -> None:
    assert schedule_of(OPTIM, 4) is None


SHARES = {
    "constant": [1.0] * 4,
    "linear": [1.0, 0.75, 0.5, 0.25],
    "cosine": [1.0, 0.85355, 0.5, 0.14645],
    "inverse_sqrt": [1.0, 0.5**0.5, (1 / 3) ** 0.5, 0.5],
    "one_cycle": [0.85355, 0.5, 0.14645, 4e-6],
    "one_cycle_linear": [0.75, 0.5, 0.25, 4e-6],
}
"""rate of each of four steps as a share of the peak, as the schema explains the schedules"""


def test_each_schedule_of_the_schema_has_its_own_rate() -> None:
    named = get_args(get_type_hints(Optim)["schedule"])
    assert {*named} == {*SHARES}
    for schedule in named:
        result = rates(4, schedule=schedule, warmup_steps=0)
        assert result == pytest.approx([2.0 * share for share in SHARES[schedule]], abs=1e-5), schedule


def test_a_schedule_without_a_rate_is_no_constant_one() -> None:
    for warmup in (0, 3):
        with pytest.raises(ValueError, match=r"optim\.schedule=exponential"):
            schedule_of(replace(OPTIM, schedule="exponential", warmup_steps=warmup), 10)


def test_a_warmup_somewhat_longer_than_the_run_is_said() -> None:
    [note] = warmup_notes(replace(OPTIM, warmup_steps=15), 10)
    assert "optim.warmup_steps=15" in note and "10 steps" in note and "0.62" in note
    assert not warmup_notes(replace(OPTIM, warmup_steps=10), 10) and not warmup_notes(OPTIM, 10)
