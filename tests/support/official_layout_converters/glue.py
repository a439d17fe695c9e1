"""GLUE as it lies in the shared data folder: in the official layout already, but for the name of the top folder."""

from pathlib import Path


def write_layout(real: Path, data: Path) -> None:
    """Copies the sets below `real` (the shared data folder) to the official layout below `data`."""
    (data / "GLUE").symlink_to(real / "glue", target_is_directory=True)
