"""Finds the folder of a run: by its name, or by the name that earlier versions gave it.

Former names had the differences in the order of the alphabet, bookkeeping included.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.run_identity import cut_tag, folder_with, tag_of, tag_parts
from attnlab.config.shipped_files import CONF

_CONFIG_FILE = "config.yaml"


def find_run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """The run folder of a configuration; the one with the former name where only that exists.

    Whether the run there has this configuration is compared when it is opened (`RunFolder.open_config`).
    """
    parts = tag_parts(config, conf)
    folder = folder_with(tag_of(parts, config), config)
    if (folder / _CONFIG_FILE).exists():
        return folder
    former = _former(parts, config)
    return former if former != folder and (former / _CONFIG_FILE).exists() else folder


def former_run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """The run folder by its former name, which is the present one for many runs."""
    return _former(tag_parts(config, conf), config)


def _former(parts: Mapping[str, str], config: Mapping[str, Any]) -> Path:
    return folder_with(cut_tag(sorted(parts.values())), config)
