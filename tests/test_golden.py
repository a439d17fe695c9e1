"""Golden outputs of published implementations (tests/golden; what ran is said in each test)."""

from pathlib import Path

import numpy as np
import torch
from models import masks

from attnlab.attention.linear import LinearAttention

GOLDEN = Path(__file__).parent / "golden"


def load(name: str) -> dict[str, torch.Tensor]:
    with np.load(GOLDEN / f"{name}.npz", allow_pickle=False) as file:
        return {key: torch.from_numpy(np.asarray(file[key])) for key in file.files}


def test_linear_equals_fast_transformers() -> None:
    """idiap/fast-transformers, LinearAttention: queries not scaled, eps 1e-6; keys beyond `key_lengths` are padding."""
    given = load("linear_elu_padded_keys")
    _, heads, _, width = given["q"].shape
    attention = LinearAttention(heads * width, heads, scale_queries=False, eps=float(given["eps"])).double()
    mask = masks(given["key_lengths"].tolist(), given["k"].shape[2])
    out = attention.attend(given["q"], given["k"], given["v"], mask, False)
    torch.testing.assert_close(out, given["out"], rtol=1e-9, atol=0)
