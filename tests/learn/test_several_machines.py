"""Runs on several machines: two network namespaces of this one, joined by a cable, as root."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.several_devices import EXACT, assert_equal_numbers, raw_of
from support.small_runs import BRIEF_SCAN, ROOT, assert_same_run, environment, run_job, wait_for_step

from attnlab.config.run_identity import run_folder
from attnlab.run.run_folder import RunFolder

pytestmark = pytest.mark.slow
SCAN = (*BRIEF_SCAN, *EXACT, "model=linear_l2_ortho")
TWO_MACHINES = {"devices": 1, "nodes": 2}
NODES = ("attnlab-node0", "attnlab-node1")
ADDRESSES = ("10.213.77.1", "10.213.77.2")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def machines() -> Iterator[None]:
    """Two machines whose own name resolves to 127.0.1.1, as on Debian and Ubuntu."""
    if os.geteuid():
        pytest.skip("network namespaces need root")
    folders = [Path("/etc/netns") / node for node in NODES]
    try:
        for number, (node, folder) in enumerate(zip(NODES, folders, strict=True)):
            ip("netns", "add", node)
            folder.mkdir(parents=True)
            other = 1 - number
            names = f"127.0.0.1 localhost\n127.0.1.1 {node}\n{ADDRESSES[other]} {NODES[other]}\n"
            (folder / "hosts").write_text(names)
        ip("link", "add", "cable0", "netns", NODES[0], "type", "veth", "peer", "name", "cable1", "netns", NODES[1])
        for number, node in enumerate(NODES):
            ip("-n", node, "addr", "add", f"{ADDRESSES[number]}/24", "dev", f"cable{number}")
            for device in ("lo", f"cable{number}"):
                ip("-n", node, "link", "set", device, "up")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces here: {error}")
    else:
        yield
    finally:
        for node, folder in zip(NODES, folders, strict=True):
            subprocess.run(["ip", "netns", "del", node], check=False, capture_output=True)
            (folder / "hosts").unlink(missing_ok=True)
            if folder.is_dir():
                folder.rmdir()


def started(file: Path, raw: dict, *words: str) -> list["subprocess.Popen[str]"]:
    """The commands of both machines, which train a run with torchrun."""
    file.write_text(json.dumps([raw]))
    more = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])}
    line = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d"]
    line += [f"--rdzv-endpoint={NODES[0]}:29500", str(ROOT / "tests/support/rank_jobs.py"), str(file), *words]
    return [
        subprocess.Popen(
            ["ip", "netns", "exec", node, "unshare", "--uts", "sh", "-c", f'hostname {node}; exec "$@"', "sh", *line],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment() | more,
            cwd=ROOT,
        )
        for node in NODES
    ]


def test_two_machines_whose_names_resolve_to_themselves(machines: None, tmp_path: Path) -> None:
    raw = raw_of(tmp_path / "two", *SCAN, "train.max_steps=6", **TWO_MACHINES)
    commands = started(tmp_path / "jobs.json", raw)
    printed = [command.communicate(timeout=120)[0] for command in commands]
    assert [command.returncode for command in commands] == [0, 0], printed
    alone = raw_of(tmp_path / "one", *SCAN, "train.max_steps=6")
    assert run_job(alone, quiet=True) == 0
    assert_equal_numbers(run_folder(alone), run_folder(raw))


def test_a_machine_that_vanishes_ends_the_run_with_a_sentence(machines: None, tmp_path: Path) -> None:
    """Its process neither ends nor answers: the cable is pulled. The run goes on as if nothing had been."""
    words = ("train.max_steps=500", "train.checkpoint_every=20")
    raw = raw_of(tmp_path, *SCAN, *words, **TWO_MACHINES)
    commands = started(tmp_path / "jobs.json", raw, "5")
    folder = RunFolder(run_folder(raw))
    try:
        wait_for_step(folder.path / "metrics.csv", 40, commands[0])
        ip("-n", NODES[0], "link", "set", "cable0", "down")
        printed = commands[0].communicate(timeout=120)[0]
    finally:
        ip("-n", NODES[0], "link", "set", "cable0", "up")
        for command in commands:
            command.kill()
    assert "another process of this run did not answer: its machine or the network may be gone" in printed, printed
    assert folder.status()["state"] == "failed" and folder.status()["step"] >= 20
    assert run_job(raw_of(tmp_path, *SCAN, *words, devices=2), quiet=True) == 0
    uninterrupted = raw_of(tmp_path / "other", *SCAN, *words, devices=2)
    assert run_job(uninterrupted, quiet=True) == 0
    assert_same_run(run_folder(uninterrupted), folder.path, steps=500)
