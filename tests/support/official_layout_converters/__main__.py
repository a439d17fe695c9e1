"""Copies a folder of real files into the layouts of the official releases.

    PYTHONPATH=tests python -m support.official_layout_converters <folder of real files> <new data folder>

What is not to be had (AAN, Pathfinder, WikiText's training texts) is a stand-in of the same form; results say so.
"""

import sys
from pathlib import Path

from support.official_layout_converters import (
    aan_stand_in,
    cifar10,
    glue,
    imdb,
    lra_listops,
    mathematics,
    pathfinder_stand_in,
    pcfg,
    wikitext,
)


def place_all(real: Path, data: Path) -> None:
    """Writes or links everything below `data`, a folder that is not there yet."""
    data.mkdir(parents=True)
    (data / "scan").symlink_to(real / "scan", target_is_directory=True)
    mathematics.write_layout(real / "mathematics" / "mathematics_dataset-subset-seed1.tar.gz", data)
    pcfg.write_layout(real / "pcfg_set" / "pcfg_set.tar.gz", data)
    lra_listops.write_layout(real / "lra_listops", data)
    imdb.write_layout(real / "imdb", data)
    aan_stand_in.write_layout(None, data)
    pathfinder_stand_in.write_layout(data)
    cifar10.write_layout(real / "cifar10" / "cifar-10-python-subset.tar.gz", data)
    wikitext.write_layout(real, data)
    glue.write_layout(real, data)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    place_all(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
