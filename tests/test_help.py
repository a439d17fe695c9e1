"""The text of --help."""

import re

from attnlab.config.compose import (
    group_choices,
)
from attnlab.config.train_help import help_text


def test_help_names_every_group_and_fits() -> None:
    text = help_text()
    for group, choices in group_choices().items():
        assert group in text
        assert all(part in text for choice in choices for part in re.sub("_(small|ortho)$", "", choice).split("/"))
    assert "table4_scan[_small]" in text and "linear_l2[_ortho]" in text
    assert "peak learning rate" in text, "meanings come from the schema"
    assert all(len(line) <= 100 for line in text.splitlines())
    assert len(text.splitlines()) <= 90
