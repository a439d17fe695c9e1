"""SCAN's official splits: their files, and rules for the content of files without a known checksum.

| split                           | trained on                                                | tested on           |
| simple, length                  | 80 % at random; the shorter 80 %                          | the rest            |
| simple_p8                       | 8 % at random (1, 2, 4, ... 64)                           | the rest            |
| addprim_jump, addprim_turn_left | all without the phrase, and often the phrase alone        | all others with it  |
| addprim_complex_jump_num2_rep1  | 2 more commands with `jump` (1 to 32, drawn 5 times)      | all others with it  |
| template_...                    | all without the phrase (`right`: without `run right` ...) | all with it         |
| filler_num2                     | `around right` behind 2 verbs (0 to 3) but not `jump`     | `jump around right` |
| fewshot_num4_rep1               | 4 with `look around right` (1 to 1024), no other verb     | `jump around right` |

(README of github brendenlake/SCAN; Lake & Baroni 2018; Loula et al. 2018, arXiv 1807.07545.) No template split has a
command with `turn` as the verb (`turn around right`, for instance) in either part.
"""

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Literal

from attnlab.data.files.fetch import DataError
from attnlab.tasks.scan.grammar import VERBS, Pair, all_pairs

# fmt: off
Split = Literal[
    "length_cutoff", "simple", "length", "addprim_jump", "addprim_turn_left", "template_jump_around_right",
    "template_around_right", "template_right", "template_opposite_right", "filler_num0", "filler_num1", "filler_num2",
    "filler_num3",
    "simple_p1", "simple_p2", "simple_p4", "simple_p8", "simple_p16", "simple_p32", "simple_p64",
    "addprim_complex_jump_num1_rep1", "addprim_complex_jump_num1_rep2", "addprim_complex_jump_num1_rep3",
    "addprim_complex_jump_num1_rep4", "addprim_complex_jump_num1_rep5", "addprim_complex_jump_num2_rep1",
    "addprim_complex_jump_num2_rep2", "addprim_complex_jump_num2_rep3", "addprim_complex_jump_num2_rep4",
    "addprim_complex_jump_num2_rep5", "addprim_complex_jump_num4_rep1", "addprim_complex_jump_num4_rep2",
    "addprim_complex_jump_num4_rep3", "addprim_complex_jump_num4_rep4", "addprim_complex_jump_num4_rep5",
    "addprim_complex_jump_num8_rep1", "addprim_complex_jump_num8_rep2", "addprim_complex_jump_num8_rep3",
    "addprim_complex_jump_num8_rep4", "addprim_complex_jump_num8_rep5", "addprim_complex_jump_num16_rep1",
    "addprim_complex_jump_num16_rep2", "addprim_complex_jump_num16_rep3", "addprim_complex_jump_num16_rep4",
    "addprim_complex_jump_num16_rep5", "addprim_complex_jump_num32_rep1", "addprim_complex_jump_num32_rep2",
    "addprim_complex_jump_num32_rep3", "addprim_complex_jump_num32_rep4", "addprim_complex_jump_num32_rep5",
    "fewshot_num1_rep1", "fewshot_num1_rep2", "fewshot_num1_rep3", "fewshot_num1_rep4", "fewshot_num1_rep5",
    "fewshot_num2_rep1", "fewshot_num2_rep2", "fewshot_num2_rep3", "fewshot_num2_rep4", "fewshot_num2_rep5",
    "fewshot_num4_rep1", "fewshot_num4_rep2", "fewshot_num4_rep3", "fewshot_num4_rep4", "fewshot_num4_rep5",
    "fewshot_num8_rep1", "fewshot_num8_rep2", "fewshot_num8_rep3", "fewshot_num8_rep4", "fewshot_num8_rep5",
    "fewshot_num16_rep1", "fewshot_num16_rep2", "fewshot_num16_rep3", "fewshot_num16_rep4", "fewshot_num16_rep5",
    "fewshot_num32_rep1", "fewshot_num32_rep2", "fewshot_num32_rep3", "fewshot_num32_rep4", "fewshot_num32_rep5",
    "fewshot_num64_rep1", "fewshot_num64_rep2", "fewshot_num64_rep3", "fewshot_num64_rep4", "fewshot_num64_rep5",
    "fewshot_num128_rep1", "fewshot_num128_rep2", "fewshot_num128_rep3", "fewshot_num128_rep4", "fewshot_num128_rep5",
    "fewshot_num256_rep1", "fewshot_num256_rep2", "fewshot_num256_rep3", "fewshot_num256_rep4", "fewshot_num256_rep5",
    "fewshot_num512_rep1", "fewshot_num512_rep2", "fewshot_num512_rep3", "fewshot_num512_rep4", "fewshot_num512_rep5",
    "fewshot_num1024_rep1", "fewshot_num1024_rep2", "fewshot_num1024_rep3", "fewshot_num1024_rep4",
    "fewshot_num1024_rep5",
]
# fmt: on
FOLDERS = {
    "simple": "simple_split",
    "simple_p": "simple_split/size_variations",
    "length": "length_split",
    "addprim": "add_prim_split",
    "addprim_complex": "add_prim_split/with_additional_examples",
    "template": "template_split",
    "filler": "filler_split",
    "fewshot": "few_shot_split",
}
"""folders by the beginning of a split's name; the longest match counts"""


def file_path(split: str, part: str) -> str:
    """The path of an official file in its repository; `part` is train or test."""
    folder = FOLDERS[max((name for name in FOLDERS if split.startswith(name)), key=len)]
    return f"{folder}/tasks_{part}_{split}.txt"


@dataclass(frozen=True)
class Drawing:
    """Content of a split whose training commands were partly drawn at random.

    always: commands that are always in training. pool: commands from which others were drawn. counts: possible numbers
    of drawn commands; two where the rounding of a share is not known. tested: test commands; None: the rest of `pool`.
    """

    always: Set[str]
    pool: Set[str]
    counts: tuple[int, ...]
    tested: Set[str] | None = None


def drawing(split: str) -> Drawing | None:
    """The content of a split whose files have no known checksum; None for other splits."""
    commands = _commands()
    match re.findall(r"\d+|[a-z_]+", split):
        case ["simple_p", percent]:
            share = len(commands) * int(percent) / 100
            return Drawing(set(), commands, (int(share), int(share) + 1))
        case ["addprim_complex_jump_num", count, "_rep", _]:
            pool = _with("jump", commands) - {"jump"}
            return Drawing(commands - pool, pool, (int(count),))
        case ["fewshot_num", count, "_rep", _]:
            around = {verb: _with(f"{verb} around right", commands) for verb in (*VERBS, "turn")}
            others = set().union(*(phrases for verb, phrases in around.items() if verb != "look"))
            tested = around["jump"] - around["turn"]
            return Drawing(commands - around["look"] - others, around["look"] - others, (int(count),), tested)
    return None


def few_examples(split: str, trained: Iterable[str]) -> Set[str]:
    """The drawn training commands of a split that is about having few of them; none of other splits."""
    law = drawing(split)
    return set(trained) - law.always if law is not None and law.always else set()


@cache
def _commands() -> frozenset[str]:
    return frozenset(" ".join(words) for words, _ in all_pairs())


def _with(phrase: str, commands: Set[str]) -> set[str]:
    return {command for command in commands if f" {phrase} " in f" {command} "}


def require_law(split: str, parts: Mapping[str, Sequence[Pair]], where: str) -> None:
    """Checks the files of a split against its `drawing`; does nothing for splits with checksums.

    Args:
        parts: the pairs of train and test.
        where: names the files in messages.

    Raises:
        DataError: commands are missing, do not belong to the split, or are tested twice.
    """
    law = drawing(split)
    if law is None:
        return
    trained, tested = ({" ".join(command) for command, _ in parts[part]} for part in ("train", "test"))
    drawn = trained - law.always
    expected = law.pool - drawn if law.tested is None else law.tested
    problems = [
        _some("train lacks", law.always - trained),
        _some("train should not hold", drawn - law.pool),
        "" if len(drawn) in law.counts else f"train has {len(drawn):,} drawn commands, expected {law.counts[0]:,}",
        _some("test lacks", expected - tested),
        _some("test should not hold", tested - expected),
        "" if len(tested) == len(parts["test"]) else "test has a command twice",
    ]
    if problem := next(filter(None, problems), None):
        advice = "They are not the official ones, or cut short: put those in their place"
        raise DataError(f"{where}, SCAN's split {split}: {problem}. {advice}.")


def _some(label: str, commands: Set[str]) -> str:
    more = f" and {len(commands) - 1:,} more" if len(commands) > 1 else ""
    return f"{label} {min(commands)!r}{more}" if commands else ""
