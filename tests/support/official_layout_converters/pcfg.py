"""PCFG SET: official test files and stand-ins for the training files, from one archive to the official layout."""

import tarfile
from pathlib import Path

CLONE = Path("am-i-compositional") / "data" / "pcfgset"
SMALL = Path("pcfg-set") / "data" / "pcfg_set" / "10K" / "random_split"
OFFICIAL, STANDIN, SMALL10K = "pcfg/official/data/pcfgset/", "pcfg/standin/", "pcfg/small10k/"
LONGEST = 736
"""symbols of the longest official target; one row of the stand-in for iid has more"""


def write_layout(real: Path, data: Path) -> None:
    """Writes two clones below `data`, without the files that are not available.

    Args:
        real: pcfg_set/pcfg_set.tar.gz
    """
    with tarfile.open(real) as tar:
        for member in tar:
            if target := _target(member.name):
                (data / target).parent.mkdir(parents=True, exist_ok=True)
                (data / target).write_bytes(tar.extractfile(member).read())
    _drop_long_rows(data / CLONE / "pcfgset" / "train.src")


def _target(name: str) -> Path | None:
    if not name.endswith((".src", ".tgt")):
        return None
    if name.startswith(OFFICIAL):
        return CLONE / name.removeprefix(OFFICIAL)
    if name.startswith(STANDIN) and Path(name).stem == "train":
        return CLONE / name.removeprefix(STANDIN)
    return SMALL / name.removeprefix(SMALL10K) if name.startswith(SMALL10K) else None


def _drop_long_rows(inputs: Path) -> None:
    targets = inputs.with_suffix(".tgt")
    rows = zip(inputs.read_text().splitlines(), targets.read_text().splitlines(), strict=True)
    kept = [row for row in rows if row[1].count(" ") < LONGEST]
    for file, column in zip((inputs, targets), zip(*kept, strict=True), strict=True):
        file.write_text("\n".join(column) + "\n")
