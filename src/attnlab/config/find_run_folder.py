"""Finds the folder of a run: by its name, or by another name of the same configuration.

One configuration has a name of its own under each preset that it was asked for by, and former names: earlier versions
had the differences in the order of the alphabet, bookkeeping included, or in a name without the preset, and cut long
names elsewhere.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.config.run_identity import cut_tag, digest, folder_with, ordered, tag_of, tag_parts
from attnlab.config.shipped_files import CONF

_CONFIG_FILE = "config.yaml"


def find_run_folder(config: Mapping[str, Any], conf: Path = CONF) -> Path:
    """The run folder of a configuration; the one with another of its names where only that exists.

    A new seed joins the other seeds of its setting. Whether a run has this configuration is compared when it is opened
    (`RunFolder.open_config`).
    """
    parts = tag_parts(config, conf)
    named = folder_with(tag_of(parts, config, conf), config)
    if (named / _CONFIG_FILE).exists() or not named.parents[1].is_dir():
        return named
    orders = ordered(parts, config), sorted(parts.values())
    folders = [named, *(folder_with(cut_tag(order), config) for order in orders)]
    folders += [tag / named.name for order in orders for tag in sorted(named.parents[1].glob(f"*,{digest(order)}"))]
    with_run = (folder for folder in folders if (folder / _CONFIG_FILE).exists())
    return next(with_run, None) or next((folder for folder in folders if folder.parent.is_dir()), named)
