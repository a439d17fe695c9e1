"""Cases of a parametrised test of which some are fast."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_except(cases: Iterable[Any], fast: Iterable[Any]) -> list[Any]:
    """The cases for `parametrize`; all but the fast ones only run in `make test-all`."""
    chosen = set(fast)
    assert chosen <= set(cases), f"unknown: {chosen - set(cases)}"
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in chosen else pytest.mark.slow)
        for case in cases
    ]
