"""Which code this is."""

import subprocess
from pathlib import Path
from typing import Any

import attnlab


def git_state() -> dict[str, Any]:
    """Commit, and whether code or configuration has changes it does not hold; nulls outside a checkout."""
    root = Path(attnlab.__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    changes = git("status", "--porcelain", "--", ":/src", ":/conf")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}
