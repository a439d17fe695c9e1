"""Whether the process that status.json names still runs."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.learn.run_lock import is_locked, mounts, private_locks


def is_alive(status: Mapping[str, Any], folder: Path) -> bool:
    """Whether the process of a run still runs: by its number here, by the lock of its folder on another machine.

    A lock that this machine cannot see (`private_locks`) says nothing, and the process counts as alive.
    """
    if status.get("host") != socket.gethostname():
        return is_locked(folder) or bool(private_locks(folder.absolute(), mounts()))
    try:
        os.kill(status["pid"], 0)
    except (KeyError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
