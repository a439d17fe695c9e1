"""Tables of official files (`official_files.yaml`): what they hold, and errors in them."""

import re
from pathlib import Path

import pytest

from attnlab.data.files.fetch import OfficialFile
from attnlab.data.files.official_files import OfficialFiles, read_table
from attnlab.tasks.cfq.files import SOURCE as CFQ
from attnlab.tasks.cogs.files import OFFICIAL as COGS
from attnlab.tasks.glue.data_sets import DATA_SETS
from attnlab.tasks.lra.image import OFFICIAL as CIFAR10
from attnlab.tasks.lra.text import OFFICIAL as IMDB
from attnlab.tasks.mathematics.task import SOURCE
from attnlab.tasks.pcfg.files import OFFICIAL as PCFG
from attnlab.tasks.scan.task import OFFICIAL as SCAN
from attnlab.tasks.wikitext.files import CORPORA

ENTRIES = [*DATA_SETS.values(), CFQ, CIFAR10, COGS, IMDB, SOURCE, *PCFG.values(), SCAN, *CORPORA.values()]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.title)
def test_sizes_and_checksums_are_well_formed(entry: OfficialFiles) -> None:
    files = [*map(entry.file, entry.files), *([entry.archive] if entry.archive else [])]
    assert files or entry.offers
    for file in files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), file
        assert file.size > 0 and file.url.startswith("https://") and file.path.startswith(tuple(entry.paths)), file
    assert all(re.fullmatch(r"[0-9a-f]{32}|[0-9a-f]{40}", digest) for digest in entry.digests.values())
    assert all(isinstance(size, int) and size > 0 for size in entry.sizes.values())
    assert isinstance(entry.paths, tuple) and isinstance(entry.offers, tuple)


def test_lists_become_tuples_and_an_archive_a_file(tmp_path: Path) -> None:
    archive = "{path: a.zip, url: https://example.org/a.zip, size: 3}"
    (tmp_path / "official_files.yaml").write_text(f"a: {{title: the a, paths: [a, a.zip], archive: {archive}}}\n")
    (entry,) = read_table(str(tmp_path / "task.py")).values()
    assert entry.paths == ("a", "a.zip")
    assert entry.archive == OfficialFile(path="a.zip", url="https://example.org/a.zip", size=3)


def test_an_unknown_key_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "official_files.yaml").write_text("a: {title: the a, paths: [a], checksum: 1}\n")
    with pytest.raises(TypeError, match="checksum"):
        read_table(str(tmp_path / "task.py"))
