"""Hydra's own main function, for what Hydra does itself: searches and `--cfg hydra`."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import hydra

from attnlab.config.command_line.words import flags_first, readable
from attnlab.config.conf_files import join_search_path
from attnlab.config.shipped_files import CONF
from attnlab.config.validation.launcher_options import register


def hydra_main(task: Callable[[Any], Any], argv: Sequence[str]) -> Callable[[], Any]:
    """The main function of Hydra for a command line."""
    # Without it, Hydra hides the traceback of our errors.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    sys.argv[1:] = flags_first(readable(argv, CONF))
    join_search_path()
    register()
    return hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")(task)
