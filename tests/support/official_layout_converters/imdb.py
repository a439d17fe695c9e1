"""IMDB film reviews in the layout of `aclImdb_v1.tar.gz`, from lines of JSON with their ids, ratings and texts."""

import gzip
import io
import json
import tarfile
from pathlib import Path


def write_layout(real: Path, data: Path, most: int | None = None) -> None:
    """Writes the archive (not compressed) below `data` from `train.jsonl.gz` and `test.jsonl.gz` in the folder `real`.

    Args:
        most: reviews of each file, from its beginning; None: all.
    """
    data.mkdir(parents=True, exist_ok=True)
    with tarfile.open(data / "aclImdb_v1.tar.gz", "w") as tar:
        for subset in ("train", "test"):
            with gzip.open(real / f"{subset}.jsonl.gz", "rt", encoding="utf-8") as lines:
                for number, line in enumerate(lines):
                    if number == most:
                        break
                    row = json.loads(line)
                    content = row["text"].encode()
                    member = tarfile.TarInfo(f"aclImdb/{subset}/{row['id']}_{row['rating']}.txt")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
