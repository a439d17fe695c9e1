"""Mark of tests that need a GPU."""

import pytest
import torch

requires_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
