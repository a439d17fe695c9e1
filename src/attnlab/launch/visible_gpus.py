"""GPUs of this machine; nothing here imports torch on a machine without a driver for GPUs."""

import ctypes
import os
from pathlib import Path


def gpu_driver_here() -> bool:
    """Whether a driver is installed without which torch sees no GPU: CUDA's or ROCm's."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True


def gpus_here() -> int:
    """Number of GPUs that torch sees."""
    if not gpu_driver_here():
        return 0
    import torch

    return torch.cuda.device_count()


def gpu_here() -> bool:
    """Whether torch can use a GPU."""
    if not gpu_driver_here():
        return False
    import torch

    return torch.cuda.is_available()


def visible_gpus() -> tuple[str, ...]:
    """All GPUs that torch sees, as CUDA_VISIBLE_DEVICES names them."""
    named = tuple(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(","))
    if len(named) > 1:
        return named
    count = gpus_here()
    # one name in CUDA_VISIBLE_DEVICES stands for the only GPU, which is 0 for torch
    return (os.environ.get("CUDA_VISIBLE_DEVICES", "0"),) if count == 1 else tuple(map(str, range(count)))
