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
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
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
FILES = {  # part and split: bytes, sha256; other splits are checked by their content
    "train_simple": (3267938, "941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd"),
    "test_simple": (812450, "1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6"),
    "train_length": (2723418, "b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2"),
    "test_length": (1356970, "0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3"),
    "train_addprim_jump": (2579619, "e3c78485692e028eed4205e1b8b3fd0e785ef2c12d45b5b89204dadf5b239e23"),
    "test_addprim_jump": (1531555, "8147ae2651422c701162e174d9d66158daa57858a26b30317ac61797118ac7a5"),
    "train_addprim_turn_left": (3974537, "1b3fed86055dd7689d217f1b90cc8960aeb1cf200f4f209dc47935761b05304c"),
    "test_addprim_turn_left": (173679, "15a82c2d25ac7c3c1fff7e18051fb085974ef3617de895c520d02144396a10e2"),
    "train_template_jump_around_right": (3468272, "f63ba9149feeb021fbb44132265d7b15e6a07e6b12c9d3220418d97d97d71735"),
    "test_template_jump_around_right": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_template_around_right": (2558693, "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f"),
    "test_template_around_right": (1243177, "fc78a5d1077dc2c206d6c42ed89fb9022867618c3f331179bafd3ec1ca699474"),
    "train_template_opposite_right": (2990057, "b4fe224a2dd636952a90b7e5552017620ab07e0c465db0ee2dddfb0f727feeb6"),
    "test_template_opposite_right": (871363, "e7fc129633f82decd39248517a8945385b77009f721f9f4f58df213f73a29a47"),
    "train_template_right": (3173282, "a09e125dc95c59843d087fd50852c57bc4e77997e2cd69aa04a9a934eea9089b"),
    "test_template_right": (729823, "506bed814f8a6ec1eef9c226eb9b2055bc984925902a94d020a23a41080993bb"),
    "train_filler_num0": (2558693, "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f"),
    "test_filler_num0": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num1": (2851719, "fe2208764e3b873420d31929e137918566b9e49d0052f7be2af68ad129006273"),
    "test_filler_num1": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num2": (3158377, "732f3663553b2a41a9a37d2f07c9719a4d9d3f2cd190380e572697b2e4ea730f"),
    "test_filler_num2": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num3": (3468272, "f63ba9149feeb021fbb44132265d7b15e6a07e6b12c9d3220418d97d97d71735"),
    "test_filler_num3": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
}
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
    commands = {" ".join(words) for words, _ in all_pairs()}
    match re.findall(r"\d+|[a-z_]+", split):
        case ["simple_p", percent]:
            share = len(commands) * int(percent) / 100
            return Drawing(set(), commands, (int(share), int(share) + 1))
        case ["addprim_complex_jump_num", count, "_rep", _]:
            pool = _with("jump", commands) - {"jump"}
            return Drawing(commands - pool, pool, (int(count),))
        case ["fewshot_num", count, "_rep", _]:
            around = {verb: _with(f"{verb} around right", commands) for verb in (*VERBS, "turn")}
            others = set().union(*(found for verb, found in around.items() if verb != "look"))
            tested = around["jump"] - around["turn"]
            return Drawing(commands - around["look"] - others, around["look"] - others, (int(count),), tested)
    return None


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
    if found := next(filter(None, problems), None):
        advice = "They are not the official ones, or cut short: put those in their place"
        raise DataError(f"{where}, SCAN's split {split}: {found}. {advice}.")


def _some(what: str, commands: Set[str]) -> str:
    more = f" and {len(commands) - 1:,} more" if len(commands) > 1 else ""
    return f"{what} {min(commands)!r}{more}" if commands else ""
