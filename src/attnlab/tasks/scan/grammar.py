"""SCAN's grammar: words, all commands, and their actions (Lake & Baroni 2018, figures 6 and 7)."""

from collections.abc import Sequence
from functools import cache
from itertools import product

from attnlab.data.vocabulary import Vocabulary

VERBS = ("walk", "look", "run", "jump")
SIDES = ("left", "right")
TIMES = {"twice": 2, "thrice": 3}
INPUTS = Vocabulary((*VERBS, "turn", *SIDES, "opposite", "around", *TIMES, "and", "after"))
OUTPUTS = Vocabulary((*(f"I_{verb.upper()}" for verb in VERBS), *(f"I_TURN_{side.upper()}" for side in SIDES)))
MAX_INPUT, MAX_OUTPUT = 9, 48
"""words of the longest command, actions of the longest output"""

Pair = tuple[list[str], list[str]]
"""words of a command, actions"""


def interpret(words: Sequence[str]) -> list[str]:
    """The actions of a command.

    Raises:
        ValueError: the words are not a command of the grammar.
    """
    for joint in ("and", "after"):
        if joint in words:
            position = words.index(joint)
            first, second = _repeated(words[:position]), _repeated(words[position + 1 :])
            return first + second if joint == "and" else second + first
    return _repeated(words)


def _repeated(words: Sequence[str]) -> list[str]:
    if words and words[-1] in TIMES:
        return _directed(words[:-1]) * TIMES[words[-1]]
    return _directed(words)


def _directed(words: Sequence[str]) -> list[str]:
    match list(words):
        case [verb] if verb in VERBS:
            return [f"I_{verb.upper()}"]
        case [verb, *manner, side] if verb in (*VERBS, "turn") and side in SIDES:
            turn = [f"I_TURN_{side.upper()}"]
            act = [] if verb == "turn" else [f"I_{verb.upper()}"]
            match manner:
                case []:
                    return turn + act
                case ["opposite"]:
                    return turn * 2 + act
                case ["around"]:
                    return (turn + act) * 4
    raise ValueError(f"{' '.join(words)!r} is no phrase of the grammar")


@cache
def all_pairs() -> tuple[Pair, ...]:
    """Every command of the grammar with its actions, in a fixed order: single phrases, then pairs of phrases."""
    directed = [[verb] for verb in VERBS]
    for verb, manner, side in product((*VERBS, "turn"), ([], ["opposite"], ["around"]), SIDES):
        directed.append([verb, *manner, side])
    phrases = [phrase + times for phrase, times in product(directed, ([], ["twice"], ["thrice"]))]
    pairs = ([*first, joint, *second] for first, joint, second in product(phrases, ("and", "after"), phrases))
    return tuple((command, interpret(command)) for command in (*phrases, *pairs))
