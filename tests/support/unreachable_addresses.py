"""Official files whose downloads fail at once, as without a network."""

from dataclasses import replace

from attnlab.data.files.official_files import OfficialFiles

NOWHERE = "http://127.0.0.1:9/"


def unreachable(files: OfficialFiles) -> OfficialFiles:
    """The same files at addresses where nothing answers."""
    archive = files.archive and replace(files.archive, url=NOWHERE + files.archive.url.rpartition("/")[2])
    return replace(files, address=NOWHERE, archive=archive)
