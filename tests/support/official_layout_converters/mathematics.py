"""The real Mathematics files, brought into the official layout."""

from pathlib import Path


def write_layout(real: Path, data: Path) -> None:
    """Puts the archive of two modules where the official one belongs; only its name and its sizes are others.

    Args:
        real: `mathematics_dataset-subset-seed1.tar.gz`.
        data: a data folder.
    """
    data.mkdir(parents=True, exist_ok=True)
    (data / "mathematics_dataset-v1.0.tar.gz").symlink_to(real)
