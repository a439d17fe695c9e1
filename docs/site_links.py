"""Hook of mkdocs: pages and files outside docs/ that pages link to become part of the site, below `repository/`."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\[(?:[^\]\[]|\[[^\]]*\])*\])\((?!https?://|#)([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```)", flags=re.MULTILINE | re.DOTALL)
PREFIX = "repository/"


def in_repository(uri: str) -> str:
    """The path in the repository of a file of the site."""
    return uri.removeprefix(PREFIX) if uri.startswith(PREFIX) else f"docs/{uri}"


def in_site(path: str) -> str:
    """The place in the site of a file of the repository."""
    return path.removeprefix("docs/") if path.startswith("docs/") else PREFIX + path


def on_files(files: Files, config: Any) -> Files:
    """Adds every file that a page links to, and the files that those link to."""
    waiting = [in_repository(file.src_uri) for file in files.documentation_pages()]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        for _, link, _ in LINK.findall(CODE.sub("", (ROOT / page).read_text())):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            if target in seen or not (ROOT / target).is_file():
                continue
            seen.add(target)
            if in_site(target).startswith(PREFIX):
                files.append(File.generated(config, in_site(target), abs_src_path=str(ROOT / target)))
            if target.endswith(".md"):
                waiting.append(target)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Writes links from the places in the site; a folder has no page, so that its name stays without a link."""
    here = in_repository(page.file.src_uri)

    def replaced(match: re.Match[str]) -> str:
        text, link, anchor = match.groups(default="")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        if (ROOT / target).is_dir():
            return text[1:-1]
        if not (ROOT / target).is_file():
            return match[0]
        return f"{text}({posixpath.relpath(in_site(target), posixpath.dirname(page.file.src_uri))}{anchor})"

    parts = CODE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)
