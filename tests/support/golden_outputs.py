"""Golden outputs of published implementations, and an attention with the weights they were made with."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnlab.attention.base import Attention

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str) -> dict[str, Tensor]:
    """The arrays of tests/golden/<name>.npz; axes are batch first."""
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


def with_weights(attention: Attention, inputs: dict[str, Tensor]) -> Attention:
    """The attention in float64 with the projections of a golden file (`q_proj_weight`, `q_proj_bias`, ...)."""
    attention = attention.double().eval()
    weights = {key: value for key, value in inputs.items() if "_proj_" in key}
    attention.load_state_dict({".".join(key.rsplit("_", 1)): value for key, value in weights.items()}, strict=False)
    assert weights, "the file has no projections"
    return attention


def assert_golden(out: Tensor, inputs: dict[str, Tensor]) -> None:
    """Equal at 1e-9 relative to each number."""
    torch.testing.assert_close(out, inputs["out"], rtol=1e-9, atol=0)
