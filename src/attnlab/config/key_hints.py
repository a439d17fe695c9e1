"""Names of other projects for keys and values here (`learning_rate`, `hidden_size`); only messages use them."""

from collections.abc import Collection

from attnlab.config.tables import table_beside

_TABLE = table_beside(__file__)
OTHER_NAMES: dict[str, str] = _TABLE["keys"]
"""by key or group: names separated by spaces; a name in several lines means the first of these keys that exists"""
SYNONYMS: dict[str, str] = _TABLE["values"]
"""usual names of choices and values, and the names here"""


def key_called(name: str, there: Collection[str] | None = None) -> str | None:
    """The key or group that another project's name means; of a dotted name the last word counts.

    Args:
        there: existing keys and groups; None: those that every task has.
    """
    word = name.rpartition(".")[2].lower()
    keys = [key for key, names in OTHER_NAMES.items() if word in names.split()]
    return next((key for key in keys if (not key.startswith("task.") if there is None else key in there)), None)
