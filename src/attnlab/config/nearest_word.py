"""Nearest correct word for a mistyped key or value, and names of other projects for keys and values here."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping

from attnlab.config.message_text import hint, offered
from attnlab.config.plain_yaml import table_beside

_TABLE = table_beside(__file__)
OTHER_NAMES: dict[str, str] = _TABLE["keys"]
"""by key or group: names separated by spaces; a name in several lines means the first of these keys that exists"""
SYNONYMS: dict[str, str] = _TABLE["values"]
"""usual names of choices and values, and the names here"""
OTHERS: frozenset[str] = frozenset(_TABLE["others"].split())
"""mechanisms and tasks that are not here, with names like those of some that are"""


def key_called(name: str, existing: Collection[str] | None = None) -> str | None:
    """The key or group that another project's name means; of a dotted name the last word counts.

    Args:
        existing: keys and groups; None: those that every task has.
    """
    word = name.rpartition(".")[2].lower()
    keys = [key for key, names in OTHER_NAMES.items() if word in names.split()]
    return next((key for key in keys if (not key.startswith("task.") if existing is None else key in existing)), None)


def nearest(word: str, choices: Iterable[str], cutoff: float | None = None) -> str | None:
    """The choice with the meaning of `word`, else the most similar one, else one that begins with it, else None.

    Args:
        cutoff: least similarity; None = as for words of this length.
    """
    by_lower = {choice.lower(): choice for choice in choices}
    by_name = {name: by_lower[choice] for name, choice in SYNONYMS.items() if choice in by_lower}
    if word.lower() in by_name:
        return by_name[word.lower()]
    # One wrong letter of two (l3 for l2) still counts as similar.
    cutoff = cutoff or (0.5 if len(word) < 4 else 0.6)
    similar = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=cutoff)
    similar = similar or [choice for choice in by_lower if word and choice.startswith(word.lower())]
    similar = similar or difflib.get_close_matches(word.lower(), by_name, n=1, cutoff=cutoff)
    return (by_lower | by_name)[similar[0]] if similar else None


def nearest_named(word: str, choices: Collection[str], aliases: Mapping[str, str]) -> str | None:
    """The choice that the name of a mechanism or a task means, as `gated_linear (gla)`; None where no name is near.

    Other mechanisms have similar names (longformer, linformer): one wrong letter of ten counts as near, and no more.

    Args:
        choices: those in a folder also by their names alone.
        aliases: other names, in lower case, with the choice that each means.
    """
    by_name = {choice.rpartition("/")[2].lower(): choice for choice in choices}
    meant = {_letters(name): f"{choice} ({name})" for name, choice in aliases.items() if choice in choices}
    meant |= {_letters(name): choice for name, choice in by_name.items()}
    for name in (_letters(word), _letters(_OF_A_NAME.sub("", word))):
        if name in meant:
            return meant[name]
    word = word.rpartition("/")[2].lower()
    if not word or word in OTHERS:
        return None
    similar = difflib.get_close_matches(word, by_name, n=1, cutoff=min(1 - 1.01 / len(word), 0.9))
    return next((by_name[name] for name in (*similar, *by_name) if name in similar or name.startswith(word)), None)


def kin_of(word: str) -> str | None:
    """The model that is of the kind of a mechanism which is not here; None for other words."""
    return next((kin for name in (word, _OF_A_NAME.sub("", word)) if (kin := _KIN.get(_letters(name)))), None)


_KIN: dict[str, str] = _TABLE["kin"]
_OF_A_NAME = re.compile(r"[-_ ]?(attention|attn|transformer)$", re.IGNORECASE)


def _letters(name: str) -> str:
    """Letters and digits alone: Mamba-2 is mamba_2."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def nearest_key(key: str, keys: Iterable[str]) -> str | None:
    """The nearest dotted key, or None: with the same last word (lr: optim.lr), of the same meaning
    (`OTHER_NAMES`), similar in the same section, or similar in any section."""
    keys = list(keys)
    section, _, last = key.rpartition(".")
    if named := named_key(key, keys):
        return named
    by_last = {other.rpartition(".")[2]: other for other in reversed(keys)}
    in_section = {name: f"{section}.{name}" for name in by_last if f"{section}.{name}" in keys}
    for candidates, cutoff in ((in_section, 0.5), (by_last, None)):
        if word := nearest(last, candidates, cutoff):
            return candidates[word]
    return None


def named_key(key: str, keys: Iterable[str]) -> str | None:
    """The dotted key with the same last word (lr: optim.lr), else the one of the same meaning, else None."""
    keys, last = list(keys), key.rpartition(".")[2]
    same = [other for other in keys if other.rpartition(".")[2] == last]
    return difflib.get_close_matches(key, same, n=1, cutoff=0.0)[0] if same else key_called(key, keys)


def choice(word: str, choices: Iterable[str], label: str, aliases: Mapping[str, str] | None = None) -> str:
    """`; nearest: linear; model: linear, linear_l1, ...`, for a word that is no choice.

    Args:
        aliases: of choices that are mechanisms or tasks, as in `nearest_named`.
    """
    choices = list(choices)
    near = nearest(word, choices) if aliases is None else nearest_named(word, choices, aliases)
    return f"{hint(near)}; {label}: {offered(choices, word)}"
