"""Caption of a PNG file, which `plots.style.save` writes into it (the text field Description)."""

import io
from collections.abc import Collection, Iterable
from pathlib import Path

KEY = "Description"


def sentences(parts: Iterable[str]) -> str:
    """Parts of a caption as sentences; empty ones are left out."""
    return " ".join(part if part.endswith(".") else f"{part}." for part in parts if part)


def span(numbers: Collection[int]) -> str:
    """The least and the greatest of some numbers: `1 to 3`, or `3` if all are equal."""
    least, most = min(numbers), max(numbers)
    return str(most) if least == most else f"{least} to {most}"


def caption_in(content: bytes) -> str:
    """The caption in the bytes of a PNG file; empty if it has none or cannot be read."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            picture.load()
            return str(picture.info.get(KEY, ""))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return ""


def caption_of(file: Path) -> str:
    return caption_in(file.read_bytes())
