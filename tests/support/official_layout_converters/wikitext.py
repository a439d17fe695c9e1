"""WikiText from the shared data folder, which has neither training text, nor WikiText-103's test text, nor raw text.

`val` is the official validation text (of WikiText-103-raw: WikiText-103's, whose rare words are `<unk>`). `train` and
`test` are STAND-INS in all three corpora: WikiText-2's official test text, whose articles up to about four fifths of
the lines are `train`, the others `test`.
"""

import gzip
from pathlib import Path

CORPORA = {"wikitext-2": "tokens", "wikitext-103": "tokens", "wikitext-103-raw": "raw"}


def write_layout(real: Path, data: Path) -> None:
    """Writes the three corpora in their official layout below `data`.

    Args:
        real: the shared data folder.
    """
    lines = gzip.decompress((real / "wikitext-2/test.txt.gz").read_bytes()).splitlines(keepends=True)
    cut = next(i for i, line in enumerate(lines) if i > 0.8 * len(lines) and is_title(line))
    for name, ending in CORPORA.items():
        valid = real / name.removesuffix("-raw") / "valid.txt.gz"
        folder = data / name
        folder.mkdir(parents=True)
        (folder / f"wiki.train.{ending}").write_bytes(b"".join(lines[:cut]))
        (folder / f"wiki.valid.{ending}").write_bytes(gzip.decompress(valid.read_bytes()))
        (folder / f"wiki.test.{ending}").write_bytes(b"".join(lines[cut:]))


def is_title(line: bytes) -> bool:
    """Whether an article begins here: ` = Title = `, where its sections are ` = = Title = = `."""
    return line.startswith(b" = ") and not line.startswith(b" = = ") and line.endswith(b" = \n")
