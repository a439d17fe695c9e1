"""A Slurm of one node for the tests of this folder that ask for it, where its packages are installed."""

import getpass
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
SCRIPT = Path(__file__).with_name("one_node_slurm.sh")
LARGEST_ARRAY = 3
"""MaxArraySize of this Slurm, so that a sweep of a few jobs needs several arrays"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """These tests run in one process, one after the other: each fills the machine."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("cluster"))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a running Slurm, which this process uses."""
    path = os.environ["PATH"] + ":/usr/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (make test-cluster installs slurm-wlm and munge)")
    # a short path: sockets have names of 107 bytes at most
    folder = Path(tmp_path_factory.mktemp("slurm"))
    up = ["bash", str(SCRIPT), "up", str(folder), f"MaxArraySize={LARGEST_ARRAY}"]
    done = subprocess.run(up, capture_output=True, text=True, check=False)
    if done.returncode:
        logs = "\n".join(file.read_text()[-2000:] for file in sorted(folder.glob("log/*.log")))
        pytest.fail(f"Slurm did not start: {done.stderr}\n{logs}")
    former = os.environ.get("SLURM_CONF")
    result = re.search(r"SLURM_CONF=(.+)", done.stdout)
    assert result is not None
    os.environ["SLURM_CONF"] = result[1]
    yield folder
    subprocess.run(["bash", str(SCRIPT), "down", str(folder)], check=False)
    os.environ.pop("SLURM_CONF")
    if former is not None:
        os.environ["SLURM_CONF"] = former


@pytest.fixture(autouse=True)
def _empty_queue(request: pytest.FixtureRequest) -> Iterator[None]:
    """No job of one test runs in the next."""
    yield
    if "slurm" in request.fixturenames:
        subprocess.run(["scancel", f"--user={getpass.getuser()}"], check=False)
