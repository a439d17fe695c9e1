"""Errors of torch that a smaller batch or another setting mends, known by their class or by what they say."""

import re

import torch

from attnlab.config.message_text import first_line

NO_MEMORY = ("out of memory", "can't allocate memory", "_STATUS_ALLOC_FAILED")
"""of CUDA, of torch on the CPU, of cuBLAS and cuDNN; errors of CUDA inside a library are plain RuntimeErrors"""
TOO_LARGE = ("invalid configuration argument",)
"""of CUDA: more blocks along an axis than a kernel can be started with; the GPU works on"""


def lacks_memory(error: BaseException) -> bool:
    """Whether an allocation failed: in numpy, Python or torch, on a GPU, or inside one of its libraries."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or _says(error, NO_MEMORY)


def too_large(error: BaseException) -> str | None:
    """The sentence on what is too large, after its subject: why, and what helps; None for another error."""
    if not lacks_memory(error) and not _says(error, TOO_LARGE):
        return None
    problem = "does not fit into memory" if lacks_memory(error) else "is more than a kernel of the GPU takes"
    return (
        f"{problem} ({first_line(error)}); "
        "train.max_tokens=4096 takes each batch in pieces of so many tokens, with the same gradient; or make it "
        "smaller: train.batch_size, train.eval_batch_size, backbone.*, or the lengths and sizes of task.*"
    )


def without_determinism(error: BaseException) -> str | None:
    """The operation that has no deterministic kernel, if that is the error."""
    match = re.match(r"(\S+) does not have a deterministic implementation", str(error))
    return match[1] if match and isinstance(error, RuntimeError) else None


def _says(error: BaseException, texts: tuple[str, ...]) -> bool:
    return isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
