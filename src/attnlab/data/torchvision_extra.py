"""torchvision, where the extra `vision` is installed and fits torch."""

from importlib import import_module
from types import ModuleType


def torchvision_module(name: str) -> ModuleType | None:
    """A module of torchvision (`utils`, `datasets`); None where it is not installed or cannot be loaded.

    A torchvision for CUDA beside a torch for the CPU raises a RuntimeError when it is imported.
    """
    try:
        return import_module(f"torchvision.{name}")
    except (ImportError, RuntimeError):
        return None
