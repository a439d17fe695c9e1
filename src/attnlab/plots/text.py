"""Text that fits into a figure."""

import textwrap

from matplotlib.figure import Figure

LETTERS_AN_INCH = 14
"""of text of nine points"""
LINE = 0.17
"""inches from one line of a legend to the next"""


def fitted(text: str, figure: Figure) -> str:
    """Text in as many lines as the width of a figure asks for."""
    return textwrap.fill(text, int(figure.get_figwidth() * LETTERS_AN_INCH))
