"""Rows of training metrics: the largest values over all steps, also across a resume."""

import math
from typing import Any
from unittest.mock import Mock

import pytest
import pytorch_lightning as pl
import torch

from attnlab.learn.callbacks import TrainMetrics
from attnlab.learn.training_module import TrainingModule

NORMS = [1.0, 2.0, 50.0, math.inf, math.nan, 3.0, 0.1, 7.3, 0.2, 0.3]
"""of steps 1 to 10; float16 overflows in two of them"""


def rows(every: int, resumed_after: int | None = None, dtype: torch.dtype = torch.float32) -> dict[int, dict[str, Any]]:
    collected: dict[int, dict[str, Any]] = {}
    logger = TrainMetrics(collected.__setitem__, every, len(NORMS))
    for step, norm in enumerate(NORMS, 1):
        metrics = {"train/gradient_norm": torch.tensor(norm, dtype=dtype), "train/lr": 0.1}
        module = Mock(spec=TrainingModule, metrics=metrics)
        logger.on_step(Mock(spec=pl.Trainer), module, step)
        if step == resumed_after:
            saved = logger.state_dict()
            logger = TrainMetrics(collected.__setitem__, every, len(NORMS))
            logger.load_state_dict(saved)
    return collected


def test_the_largest_value_is_over_all_steps() -> None:
    found = rows(4)
    largest = {step: row["train/gradient_norm_max"] for step, row in found.items()}
    assert largest == pytest.approx({4: 50.0, 8: 7.3, 10: 0.3})
    assert found[10]["train/gradient_norm"] == pytest.approx(0.3) and "train/lr_max" not in found[10]


def test_without_a_finite_value_there_is_no_largest() -> None:
    found = rows(1)
    assert [step for step in found if "train/gradient_norm_max" not in found[step]] == [4, 5]
    assert all(row["train/gradient_norm_max"] == row["train/gradient_norm"] for step, row in found.items() if step > 5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("step", range(1, 10))
def test_a_resume_changes_no_row(step: int, dtype: torch.dtype) -> None:
    assert repr(rows(4, step, dtype)) == repr(rows(4, None, dtype))
