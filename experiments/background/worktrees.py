"""Worktrees of the commits that declare claims, and the processes that run there."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from background.places import HERE, OUTPUT, ROOT, WORK, CampaignError, git


def require_commit(commit: str) -> None:
    """Check that a commit is in this repository.

    Raises:
        CampaignError: it is not, as in a shallow clone.
    """
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except CampaignError:
        raise CampaignError(
            f"commit {commit[:10]}, which declares a claim, is not in this clone: git fetch --unshallow"
        ) from None


def worktree(commit: str) -> Path:
    """The worktree of a commit, made if missing; run folders and reports of its commands lie in this checkout.

    Raises:
        CampaignError: files of it were edited, or it is no worktree of that commit.
    """
    tree = WORK / commit[:12]
    if not tree.exists():
        require_commit(commit)
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(tree), commit)
    if git("-C", str(tree), "rev-parse", "HEAD") != commit or git("-C", str(tree), "status", "--porcelain", "-uno"):
        raise CampaignError(
            f"{tree} is not as committed in {commit[:10]}; remove it: git worktree remove --force {tree}"
        )
    for name in ("runs", "reports"):
        (HERE / name).mkdir(exist_ok=True)
        link = tree / "experiments" / name
        if not link.exists():
            link.symlink_to(HERE / name)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Environment of the commands of a worktree, or of this checkout: its own package, one thread, and data by relative
    paths, so that no archive names a folder of this machine."""
    places = {f"ATTNLAB_{name.upper()}": os.path.relpath(WORK / name, tree) for name in ("data", "cache")}
    return os.environ | places | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}


def link_data() -> None:
    """Link the folder of the official files: ATTNLAB_DATA, else that of an earlier start, else data/."""
    link, named = WORK / "data", os.environ.get("ATTNLAB_DATA")
    folder = Path(named or ROOT / "data").resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    if not link.exists() or (named and link.resolve() != folder):
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
    print(f"data: {link.resolve()}")


def child(commit: str, words: Sequence[str], lock: TextIO) -> subprocess.Popen[bytes]:
    """Start a command in the worktree of a commit."""
    tree = worktree(commit)
    with OUTPUT.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
            preexec_fn=stop_with_parent,  # noqa: PLW1509  this process has one thread
        )


def stop_with_parent() -> None:
    """Ask Linux to send SIGTERM to this process when its parent ends, also by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def take_lowest_priority() -> None:
    """Give this process and its runs the lowest priority."""
    os.nice(19)
    # with autogroups, Linux shares processors among sessions by the nice value of each session, not of its processes:
    # a session of our own would else have as large a share as other work
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")
