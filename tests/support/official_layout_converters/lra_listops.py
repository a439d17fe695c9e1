"""ListOps in LRA's layout: the files are as LRA's generator writes them, compressed one by one."""

from pathlib import Path


def write_layout(real: Path, data: Path) -> None:
    """Puts the files of the folder `real` where an unpacked release has them below `data`."""
    folder = data / "lra_release" / "listops-1000"
    folder.mkdir(parents=True)
    for file in sorted(real.glob("basic_*.tsv.gz")):
        (folder / file.name).symlink_to(file.resolve())
