"""Real data for tests, if this machine has it."""

import os
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def real_data(name: str) -> Path:
    """The path of `name` below the real data folder (ATTNLAB_DATA, else ../shared/data); skips the test without it."""
    inputs = os.environ.get("ATTNLAB_DATA")
    folder = Path(inputs) if inputs else CHECKOUT.parent / "shared" / "data"
    if not (folder / name).exists():
        pytest.skip(f"no real data: {folder / name} is not there (set ATTNLAB_DATA to a folder that has it)")
    return folder / name
