"""Whether the process that status.json names still runs."""

import os
import socket
from collections.abc import Mapping
from typing import Any


def is_alive(status: Mapping[str, Any]) -> bool:
    """Whether the process of a run may still run; on another machine this is unknown, and it counts as alive."""
    if status.get("host") != socket.gethostname():
        return True
    try:
        os.kill(status["pid"], 0)
    except (KeyError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
