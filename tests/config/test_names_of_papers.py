"""Names that papers and libraries have for models and tasks: hints of messages, in the yamls and in docs/models.md."""

import re
from collections import Counter

import pytest

from attnlab.config.conf_files import NAMED, aliases, group_choices
from attnlab.config.nearest_word import nearest_named
from attnlab.config.problem import ConfigError
from attnlab.config.shipped_files import CONF
from attnlab.config.sweep import check_command

MEANT = {
    "model": {
        "gla": "gated_linear",
        "Mamba-2": "scalar_gated_linear",
        "kda": "channel_gated_delta_rule",
        "GatedDeltaNet": "gated_delta_rule",
        "linear_attn": "linear",
        "flash-attention": "vanilla",
        "transformer": "vanilla",
        "nope": "kazemnejad2023/vanilla_none",
        "norm_atention": "qin2022/norm_attention",
        "vanilla_t5": "kazemnejad2023/vanilla_t5",
        "cosfromer_l2": "cosformer_l2",
        "nystrom": "nystromformer",
    },
    "task": {"clevr": "sort_of_clevr", "listops": "lra_listops", "IMDB": "lra_text", "lra": "lra_", "scna": "scan"},
}
ELSEWHERE = {
    "model": "abc attention_free conformer deltaproduct gated_attention gqa griffin gsa h3 hgrn2 hyena local_attention "
    "log_linear longformer lru mamba mega mla mqa nsa rebased rfa rnn routing_transformer rwkv rwkv7 s4 s4d sinkformer "
    "synthesizer titans ttt xformer xlstm",
    "task": "gscan recogs clue enwik8 squad babi wmt c4",
}
"""separated by spaces"""


def problem(group: str, word: str) -> str:
    with pytest.raises(ConfigError) as error:
        check_command([f"{group}={word}"])
    (text,) = error.value.problems
    return text


@pytest.mark.parametrize(("group", "word"), [(group, word) for group in NAMED for word in MEANT[group]])
def test_the_name_of_a_paper_leads_to_the_choice_here(group: str, word: str) -> None:
    assert f"; nearest: {MEANT[group][word]}" in problem(group, word)


@pytest.mark.parametrize("group", NAMED)
def test_what_is_not_here_gets_no_wrong_name_but_the_page_of_all(group: str) -> None:
    choices, named = group_choices()[group], aliases(group)
    words = ELSEWHERE[group].split(" ")
    near = {word: found for word in words if (found := nearest_named(word, choices, named))}
    text = problem(group, words[0])
    assert near == {} and "nearest" not in text and f"docs/{group}s.md" in text


@pytest.mark.parametrize("group", NAMED)
def test_an_alias_means_one_choice_and_is_none(group: str) -> None:
    """It stands below the name of its file."""
    written = []
    for choice in group_choices()[group]:
        text = (CONF / group / f"{choice}.yaml").read_text()
        if "# aliases:" in text:
            (line,) = re.findall(r"^ *name: \w+\n *# aliases: (.+)$", text, flags=re.MULTILINE)
            written += [(name, choice) for name in line.split(", ")]
    assert dict(written) == aliases(group) and len(written) > 10
    names = [choice.rpartition("/")[2] for choice in group_choices()[group]] + [name for name, _ in written]
    letters = Counter(re.sub(r"[^a-z0-9]", "", name) for name in names)
    assert [name for name, times in letters.items() if times > 1] == []


def test_the_page_of_models_has_every_alias() -> None:
    line = re.search(r"^Names in papers .*: (.+)\.$", (CONF.parent / "docs/models.md").read_text(), flags=re.MULTILINE)
    assert line
    parts = [re.fullmatch(r"(.+) \(`(.+)`\)", part) for part in line[1].split("; ")]
    shown = {name: part[2] for part in parts if part for name in part[1].split(", ")}
    assert shown == aliases("model"), "write it anew: python -m attnlab.nn.mechanism_table docs/models.md"


def test_an_alias_is_no_name_of_a_run() -> None:
    for group in NAMED:
        for alias, choice in aliases(group).items():
            assert "no such choice" in problem(group, alias), choice
    assert "aliases" not in str(check_command(["model=gated_linear", "task=mqar"]).configs)
