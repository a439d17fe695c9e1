"""Pictures as parts of the page."""

import base64
import struct
from pathlib import Path

from attnlab.report.page.elements import Html, join, tag

_BEGIN, _END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class PictureError(Exception):
    """A picture that cannot be shown: why."""


def data_uri(file: Path, folder: Path) -> str:
    """A PNG file as an address that holds it.

    Raises:
        PictureError: it is missing, outside of the folder, no PNG or cut short.
    """
    return f"data:image/png;base64,{base64.b64encode(_read(file, folder)).decode()}"


def figure(file: Path, folder: Path, caption: str, alt: str, more: Html | None = None) -> Html:
    """A picture with its caption; its pixels' shape keeps the page from jumping while it loads.

    Raises:
        PictureError: as `data_uri`.
    """
    content = _read(file, folder)
    width, height = struct.unpack(">II", content[16:24])
    image = tag("img", src=data_uri(file, folder), alt=alt, width=width, height=height)
    return tag("figure", image, tag("figcaption", join([caption, *([" ", more] if more else [])])))


def _read(file: Path, folder: Path) -> bytes:
    if not file.resolve().is_relative_to(folder.resolve()):
        raise PictureError(f"{file}: outside of {folder}")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise PictureError(f"{file}: {error.strerror}") from None
    if not content.startswith(_BEGIN) or not content.rstrip().endswith(_END) or len(content) < 33:
        raise PictureError(f"{file}: no PNG, or cut short")
    return content
