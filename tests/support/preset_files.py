"""The texts of presets, merged as Hydra merges them but without Hydra, which is slow."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import yaml

from attnlab.config.shipped_files import CONF

EXPERIMENTS, PILOTS = CONF / "experiment", "claims/pilots/"


def merged(base: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Sections merged, other values replaced, as Hydra does."""
    both = {
        key: merged(base[key], other[key])
        for key in base.keys() & other.keys()
        if isinstance(base[key], Mapping) and isinstance(other[key], Mapping)
    }
    return {**base, **other, **both}


@cache
def text_of(name: str) -> dict[str, Any]:
    """A preset merged with the experiments of its defaults list; interpolations stay text."""
    preset = yaml.safe_load((EXPERIMENTS / f"{name}.yaml").read_text())
    parents = [entry for entry in preset.get("defaults", []) if isinstance(entry, str)]
    collected: dict[str, Any] = {}
    for parent in (entry.removeprefix("/experiment/") for entry in parents if entry.startswith("/experiment/")):
        collected = merged(collected, text_of(parent))
    return merged(collected, preset)


def presets_with_reports(folder: str = "") -> list[str]:
    """The names of the presets that make a table or a figure, in all folders or in one; without pilots."""
    files = (file for file in sorted((EXPERIMENTS / folder).rglob("*.yaml")) if not file.name.startswith("_"))
    names = [file.relative_to(EXPERIMENTS).with_suffix("").as_posix() for file in files]
    return [name for name in names if not name.startswith(PILOTS) and "report" in text_of(name)]
