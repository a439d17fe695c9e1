"""Mark of tests that write to a device without space."""

from pathlib import Path

import pytest

needs_dev_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
