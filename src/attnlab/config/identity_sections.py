"""The sections of a configuration that make the identity of a run."""

from collections.abc import Mapping
from typing import Any

from attnlab.config.layer_plan import filled_shares

PRESETS = ("experiment", "debug")
"""groups that set other sections; the configuration records their choices"""
NOT_IDENTITY = ("seed", "paths", "logger", "trainer", "cost", *PRESETS, "report")
"""sections that do not change the trained network; the seed has its own folder level"""


def without_sections(config: Mapping[str, Any]) -> dict[str, Any]:
    """A complete configuration without the sections of `NOT_IDENTITY`, and with shares of layers as numbers."""
    return {key: value for key, value in with_filled_shares(config).items() if key not in NOT_IDENTITY}


def with_filled_shares(config: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with a number for every share of layers that is null."""
    model = dict(config.get("model") or {})
    for slot in ("encoder", "decoder"):
        groups = model.get(slot)
        if isinstance(groups, list) and any(group.get("share", 0) is None for group in groups):
            shares = filled_shares([group["share"] for group in groups])
            model[slot] = [{**group, "share": share} for group, share in zip(groups, shares, strict=True)]
    return {**config, "model": model} if model else dict(config)
