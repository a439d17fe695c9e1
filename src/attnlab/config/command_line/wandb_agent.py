"""Runs that an agent of `wandb sweep` starts: the sweep sees a run by the id that the agent gives it.

Imports neither wandb nor torch.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from attnlab.config.dotted_keys import flatten

ONE_RUN = "an agent of wandb sweep starts one run at a time: take -m and sweeps of an experiment out of its command"


def agent_run_id() -> str | None:
    """The id of the wandb run that an agent gave to this process; None if no agent started it.

    The variable alone may be left over from another program; an agent sets that of its sweep too.
    """
    run_id = os.environ.get("WANDB_RUN_ID", "")
    return run_id if os.environ.get("WANDB_SWEEP_ID") and re.fullmatch("[0-9a-z]{8}", run_id) else None


def offline_note(logger: str) -> str:
    """What an agent's sweep lacks if the run is not logged online; empty if nothing."""
    if agent_run_id() is None or logger == "wandb_online":
        return ""
    return (
        f"note: the wandb sweep {os.environ['WANDB_SWEEP_ID']} sees nothing of a run with logger={logger}; write "
        "logger=wandb_online into its command"
    )


def shown_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration as an agent's run shows it: dotted keys, beside which the sweep's `model: linear` can stand."""
    return dict(config) if agent_run_id() is None else flatten(config)
