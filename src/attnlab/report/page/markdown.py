"""A README.md as part of the page: headings one step lower, pictures inside, links from where the page lies."""

import os
import re
from pathlib import Path
from urllib.parse import quote, unquote

from markupsafe import Markup

from attnlab.report.page.pictures import PictureError, read_pixels


def split_title(text: str) -> tuple[str | None, str]:
    """The first heading of a text, and the rest; comments are left out."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).strip()
    found = re.match(r"#\s+(.+)\n?", text)
    return (found[1].strip(), text[found.end() :]) if found else (None, text)


def linked(target: Path, page: Path) -> str:
    """A file's address, from the page's folder."""
    return quote(os.path.relpath(target, page.parent).replace(os.sep, "/"))


def rendered(text: str, folder: Path, page: Path, lower: int) -> tuple[Markup, set[Path]]:
    """Markdown as HTML, raw HTML in it shown as text; and the pictures that are part of it.

    Args:
        folder: where the text lies, which its links start from.
        page: the file that is written.
        lower: how many steps headings go down.
    """
    from markdown_it import MarkdownIt

    reader, pictures = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False}).enable("table"), set()
    tokens = reader.parse(text)
    for token in [one for outer in tokens for one in (outer, *(outer.children or ()))]:
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
    """A link of the text as seen from the page; what is no file stays."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:|#|/", target):
        return target
    file, mark, part = target.partition("#")
    return linked(folder / unquote(file), page) + mark + part
