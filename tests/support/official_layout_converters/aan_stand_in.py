"""A stand-in for LRA's retrieval pairs, in their layout: short texts on one topic each; a pair cites when topics agree.

The real ones (papers of the ACL Anthology Network) are only in LRA's release of 7.7 GB. What is learned here says
nothing about them.
"""

import random
from collections.abc import Mapping
from pathlib import Path

TOPICS = ("verb", "jazz", "quokka", "milk", "phonology", "zigzag")
SENTENCES = (
    "{0}: we study {0} and what {0} does.",
    "On {0} after {0}, with more {0}.",
    "Results on {0}; no {0} is left out.",
    "{0}, {0} and {0} again.",
)
SIZES = {"train": 400, "eval": 60, "test": 60}


def text(topic: str, draw: random.Random) -> str:
    """Some sentences on a topic, printed as Python prints bytes, as LRA's texts are read."""
    sentences = draw.sample(SENTENCES, draw.randint(1, len(SENTENCES)))
    return str(" ".join(sentence.format(topic) for sentence in sentences).encode())


def write_layout(_: Path | None, data: Path, sizes: Mapping[str, int] = SIZES) -> None:
    """Writes the three files where an unpacked release has them below `data`; equal sizes give equal files.

    Args:
        _: unused; the other writers read real files here.
        sizes: pairs of each file.
    """
    folder = data / "lra_release" / "tsv_data"
    folder.mkdir(parents=True)
    for part, size in sizes.items():
        draw, lines = random.Random(part), []
        for number in range(size):
            same = number % 2 == 0
            topics = [draw.choice(TOPICS)] * 2 if same else draw.sample(TOPICS, 2)
            fields = (
                f"{float(same)}",
                f"P00-{number:04d}",
                f"W00-{number:04d}",
                *(text(topic, draw) for topic in topics),
            )
            lines.append("\t".join(fields) + "\n")
        (folder / f"new_aan_pairs.{part}.tsv").write_text("".join(lines))
