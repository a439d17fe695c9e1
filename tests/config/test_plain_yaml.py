"""Parser of config.yaml files."""

import pytest
import yaml

from attnlab.config.plain_yaml import parse_yaml


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\na: 2\nb: 0\n",  # the last one counts
        "a: {b: 1,\nc: 2}\n",  # a line start inside of a value
        'a: "x\ny: z"\n',
        "a: |\n  text\nb: - no list\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "a: 1\x85b: 2\n",
        "a: 1\nword\n",
        "a: [1\n",
        "- 1\n- 2\n",
        "a: 010\nb: 1_000\n",
        "",
    ],
)
def test_text_is_read_as_yaml_reads_it(text: str) -> None:
    try:
        expected = yaml.safe_load(text)
    except yaml.YAMLError:
        with pytest.raises(yaml.YAMLError):
            parse_yaml(text)
    else:
        assert parse_yaml(text) == expected


def test_an_anchor_is_named_with_its_line_in_the_whole_file() -> None:
    with pytest.raises(ValueError, match="line 3 has an anchor"):
        parse_yaml("a: 1\nb: 2\nc: &x [1]\n")
    with pytest.raises(ValueError, match="line 2 is nested more than 50 deep"):
        parse_yaml("a: 1\nb: " + 60 * "[" + 60 * "]" + "\n")
