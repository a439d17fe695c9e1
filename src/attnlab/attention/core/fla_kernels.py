"""Recurrences by the Triton kernels of flash-linear-attention (fla-core, the extra `fast`), on a GPU.

The kernels read and return [B, N, H, D]. They multiply in TensorFloat-32; the kernels of delta rules take queries, keys
and values in bfloat16 only. Errors measured on a GPU: experiments/measured/h100. With one decay a head, fla refuses
gradients on Hopper GPUs with Triton 3.4 to 3.7.0. The first call at a shape tunes the kernels, for minutes.
"""

import importlib
import importlib.util

import torch
from torch import Tensor

from attnlab.attention.core.recurrent_sums import Recurrent

KERNELS = {
    (False, None): ("fla.ops.simple_gla", "chunk_simple_gla"),
    (False, True): ("fla.ops.simple_gla", "chunk_simple_gla"),
    (False, False): ("fla.ops.gla", "chunk_gla"),
    (True, None): ("fla.ops.delta_rule", "chunk_delta_rule"),
    (True, True): ("fla.ops.gated_delta_rule", "chunk_gated_delta_rule"),
    (True, False): ("fla.ops.kda", "chunk_kda"),
}
"""module and function, by whether there is a delta rule, and whether a head has one decay (None: no decay)"""


def missing_kernels() -> str:
    """Why the kernels cannot run here; empty where they can."""
    if not torch.cuda.is_available():
        return "fast=true: the kernels of flash-linear-attention need a GPU, and torch sees none here; write false"
    if importlib.util.find_spec("fla") is None:
        return "fast=true: fla-core is not installed; pip install 'attnlab[fast]' brings it, or write false"
    return ""


def kernel_sums(read: Recurrent) -> Tensor:
    """Outputs of all positions, as `recurrent_sums`."""
    is_delta, decay = read.write is not None, read.log_decay
    module, name = KERNELS[is_delta, None if decay is None else decay.shape[-1] == 1]
    heads = [x.transpose(1, 2).contiguous() for x in (read.q, read.k, read.v)]
    inputs = dict(zip("qkv", (x.bfloat16() for x in heads) if is_delta else heads, strict=True))
    if decay is not None:
        decay = decay.expand(*read.k.shape[:3], -1).transpose(1, 2).contiguous()
        inputs["g"] = decay[..., 0] if decay.shape[-1] == 1 else decay
    if read.write is not None:
        inputs["beta"] = read.write[..., 0].transpose(1, 2).contiguous()
    out, _ = getattr(importlib.import_module(module), name)(**inputs, scale=1.0)
    return out.transpose(1, 2).to(read.v.dtype)
