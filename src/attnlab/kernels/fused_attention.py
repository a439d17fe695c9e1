"""Torch's fused softmax attention: the kernels that a GPU may use, and batches that are too large for one call.

cuDNN's kernel, torch's first choice on Hopper GPUs, is off for the whole process: it makes a plan for every new length,
and so for every token in decoding, and since torch 2.11 it can give NaN gradients with a mask (pytorch issue 196678).
Torch's other fused kernels have neither problem.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

torch.backends.cuda.enable_cudnn_sdp(False)

LARGEST = {"cuda": 65_535}
"""limit of the batch of a call, by device: CUDA starts at most so many blocks along an axis (pytorch issue 146704)"""


def fused_attention(
    q: Float[Tensor, "*heads N D"],
    k: Float[Tensor, "*heads M D"],
    v: Float[Tensor, "*heads M C"],
    keep: Bool[Tensor, "*#heads #N M"] | Float[Tensor, "*#heads #N M"] | None,
    causal: bool,
    dropout: float,
) -> Float[Tensor, "*heads N C"]:
    """softmax(q k^T / sqrt(D)) v over the keys to keep, in as many calls as the batch needs.

    Args:
        keep: with as many axes as q; None = all; or numbers to be added to the scores.
        dropout: rate on the weights.
    """
    largest = LARGEST.get(q.device.type, len(q))
    if len(q) <= largest:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=dropout, is_causal=causal)
    n_parts = -(-len(q) // largest)
    if keep is not None:
        keep = keep.expand(len(q), *keep.shape[1:])
    keeps = [None] * n_parts if keep is None else keep.split(largest)
    parts = zip(q.split(largest), k.split(largest), v.split(largest), keeps, strict=True)
    return torch.cat([fused_attention(*part, causal, dropout) for part in parts])
