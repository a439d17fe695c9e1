"""A README.md and pictures as parts of the page: headings lower, pictures inside, links from the folder of the page."""

import base64
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from markupsafe import Markup

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


def split_title(text: str) -> tuple[str | None, str]:
    """The first heading of a text, and the rest without comments."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    heading = re.match(r"#\s+(.+)\n?", text)
    return (heading[1].strip(), text[heading.end() :]) if heading else (None, text)


def linked(target: Path, page: Path) -> str:
    """The link to a file from the page."""
    return quote(os.path.relpath(target, page.parent).replace(os.sep, "/"))


def rendered(text: str, folder: Path, page: Path, lower: int) -> tuple[Markup, set[Path]]:
    """Markdown as HTML, with raw HTML shown as text, and the pictures in it.

    Args:
        folder: the folder of the text, where its links start.
        page: the file of the page.
        lower: how many levels headings go down.
    """
    from markdown_it import MarkdownIt

    reader, pictures = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable("table"), set()
    tokens = reader.parse(text)
    for token in [token for outer in tokens for token in (outer, *(outer.children or ()))]:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + lower)}"
        elif token.type == "th_open":
            token.attrSet("scope", "col")
        elif token.type == "link_open":
            token.attrSet("href", _from_page(str(token.attrGet("href")), folder, page))
        elif token.type == "image":
            file = (folder / unquote(str(token.attrGet("src")))).resolve()
            try:
                token.attrSet("src", read_pixels(file, folder).uri)
                pictures.add(file)
            except PictureError:
                token.type, token.content = "text", f"[picture: {token.content}]"
    html = reader.renderer.render(tokens, reader.options, {})
    html = html.replace("<table>", '<div class="scroll" role="region" aria-label="table" tabindex="0"><table>')
    return Markup(html.replace("</table>", "</table></div>")), pictures


def _from_page(target: str, folder: Path, page: Path) -> str:
    """A link of the text as seen from the page; links that are no files stay."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#|/", target):
        return target
    file, mark, part = target.partition("#")
    return linked(folder / unquote(file), page) + mark + part
