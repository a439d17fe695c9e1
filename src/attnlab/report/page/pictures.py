"""Reader of pictures for the page."""

import base64
import struct
from dataclasses import dataclass
from pathlib import Path

from attnlab.data.files.regular_file import LARGEST, read_regular
from attnlab.plots.png_caption import caption_in

_BEGIN, _END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class PictureError(Exception):
    """A picture that cannot be shown: why."""


@dataclass(frozen=True)
class Pixels:
    """A PNG file as a data URI; with its size the page keeps its layout while it loads.

    caption: of the file; empty if it holds none.
    """

    uri: str
    width: int
    height: int
    caption: str = ""


def read_pixels(file: Path, folder: Path) -> Pixels:
    """Reads a PNG file below a folder.

    Raises:
        PictureError: it is missing, outside of the folder, no PNG or cut short.
    """
    if not file.resolve().is_relative_to(folder.resolve()):
        raise PictureError(f"{file}: outside of {folder}")
    try:
        content = read_regular(file, LARGEST)
    except OSError as error:
        raise PictureError(f"{file}: {error.strerror}") from None
    if not content.startswith(_BEGIN) or not content.rstrip().endswith(_END) or len(content) < 33:
        raise PictureError(f"{file}: no PNG, or cut short")
    width, height = struct.unpack(">II", content[16:24])
    uri = f"data:image/png;base64,{base64.b64encode(content).decode()}"
    return Pixels(uri, width, height, caption_in(content))
