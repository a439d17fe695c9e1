"""Folders and files of the campaign, and what every part of it does with them."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
ROOT, WORK = HERE.parent, HERE / ".campaign"
RUNS, PILOT_RUNS = HERE / "runs" / "claims", HERE / "runs" / "pilots"
MEASURED, REPORTS = HERE / "measured" / "claims", HERE / "reports" / "claims"
QUEUE, LOG, OUTPUT = MEASURED / "queue.json", WORK / "log.txt", WORK / "output.txt"
PRESETS, PILOTS = "conf/experiment/claims", "pilots/"
"""folder of the presets, and that of the pilots in it"""


class CampaignError(Exception):
    """What cannot be done, and what to do about it."""


def read_json(path: Path, advice: str) -> Any:
    """The content of a JSON file.

    Raises:
        CampaignError: it cannot be read, or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CampaignError(f"{path} cannot be read ({error}); {advice}") from error


def replace(path: Path, content: bytes) -> None:
    """Write a file atomically, by way of a file outside of the tracked folders."""
    WORK.mkdir(parents=True, exist_ok=True)
    part = WORK / f"{path.name}.{os.getpid()}.part"
    part.write_bytes(content)
    part.replace(path)


def remove_parts() -> None:
    """Remove what killed processes, also of earlier versions, have left of files that they wrote."""
    for part in (*WORK.glob("*.part"), *MEASURED.rglob("*.part")):
        pid = part.suffixes[-2].removeprefix(".") if len(part.suffixes) > 1 else ""
        if pid.isdecimal() and not is_alive(int(pid)):
            part.unlink(missing_ok=True)


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs; one that was killed may be listed until its parent asks for it."""
    try:
        os.kill(pid, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def git(*words: str) -> str:
    """Output of a git command in this checkout.

    Raises:
        CampaignError: it fails.
    """
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CampaignError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def log(sentence: str) -> None:
    """Append a line with the time to the log."""
    with LOG.open("a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {sentence}\n")
