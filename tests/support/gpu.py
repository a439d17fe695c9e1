"""Marker of tests that need a GPU: `pytest -m "not slow" tests/test_gpu_*.py` runs them where there is one."""

import pytest
import torch

requires_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
