"""Folders of the repository's top that the wheel packs into the package: the configuration, the published numbers."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_REPOSITORY = _PACKAGE.parents[1]


def _shipped(packed: str, in_repository: str) -> Path:
    """A folder inside the installed package; in a checkout the folder of the repository."""
    inside = _PACKAGE / packed
    return inside if inside.is_dir() else _REPOSITORY / in_repository


CONF = _shipped("conf", "conf")
"""shipped configuration"""

PUBLISHED = _shipped("published", "experiments/published")
"""numbers of the papers"""
