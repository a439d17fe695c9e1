"""GLUE as it lies in the shared data folder: in the official layout already, but for the name of the top folder."""

from pathlib import Path


def place(real: Path, data: Path) -> None:
    """Puts the sets below `real` (the shared data folder) in their places below `data`."""
    (data / "GLUE").symlink_to(real / "glue", target_is_directory=True)
