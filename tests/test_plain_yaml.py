"""Parser of config.yaml files: parts that many files share are parsed once, with the result of the whole file."""

import pytest
import yaml

from attnlab.config.job_config import compose_config
from attnlab.config.plain_yaml import parse_yaml
from attnlab.run.read_run_files import config_text

TEXT = config_text(compose_config(["task=scan", "model=linear_l2_ortho"]))


def test_files_that_share_parts_are_read_as_alone() -> None:
    for seed in range(3):
        text = TEXT.replace("seed: 0", f"seed: {seed}", 1)
        found = parse_yaml(text)
        assert found == yaml.safe_load(text) and list(found) == list(yaml.safe_load(text))
        # the next file of these parts must not see it
        found["optim"]["betas"].append(seed)
        found["model"]["encoder"][0]["attention"].clear()


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
def test_any_other_text_is_read_as_a_whole(text: str) -> None:
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
