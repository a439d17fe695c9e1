"""Why a group of jobs fits no other: the one key in which it differs from most other jobs.

Groups are looked up by their values without a key, so the time grows with the groups, not with their pairs.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from attnlab.config.dotted_keys import MISSING
from attnlab.config.message_text import listed, show

SECTIONS = {"task": ("task", "backbone", "optim", "train", "cost"), "model": ("model",)}
"""sections that a choice of these groups sets: if the names differ, other differences in them are not reported"""

_MOST = 4


class _Alike(NamedTuple):
    """Groups that differ from a group in one key only.

    jobs:    of them.
    number:  of them.
    members: the groups in order, with those that are equal in the key too.
    """

    jobs: int
    number: int
    members: Sequence[int]


class LoneGroups:
    """Groups of jobs with different values.

    Args:
        values: flattened values of each group.
        sizes: jobs of each group.
    """

    def __init__(self, values: Sequence[Mapping[str, Any]], sizes: Sequence[int]) -> None:
        self.values, self.sizes = values, sizes
        self.found: list[dict[str, _Alike]] = [{} for _ in values]
        keys = dict.fromkeys(key for each in values for key in each)
        columns = {key: [_hashable(each.get(key, MISSING)) for each in values] for key in keys}
        self.columns = {key: column for key, column in columns.items() if len(set(column)) > 1}
        choices = {_named(choice): choice for choice in SECTIONS}
        for key in self.columns:
            self._compare(choices.get(key, key))

    def reason(self, group: int) -> str:
        """The key in which most other jobs differ, which equal the group in all other keys; empty if there are none."""
        if not self.found[group]:
            return ""
        # of equal numbers, the key of the first group
        by_key = {key: (found.jobs, -next(self._others(group, key))) for key, found in self.found[group].items()}
        key = max(by_key, key=by_key.__getitem__)
        theirs = [self._text(other, key) for other in islice(self._others(group, key), _MOST)]
        there = listed(theirs, _MOST, number=self.found[group][key].number)
        return f"{key}={self._text(group, key)} here, {there} in the jobs that would fit otherwise"

    def _others(self, group: int, key: str) -> Iterator[int]:
        own = self._column(key)
        return (other for other in self.found[group][key].members if own[other] != own[group])

    def _compare(self, key: str) -> None:
        """Find the groups that differ in one key, or in one choice and what it sets, and in nothing else."""
        aside = SECTIONS.get(key, ())
        rest = [column for name, column in self.columns.items() if name != key and name.partition(".")[0] not in aside]
        alike: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
        for group in range(len(self.values)):
            alike[tuple(column[group] for column in rest)].append(group)
        for members in alike.values():
            self._note(key, members)

    def _note(self, key: str, members: Sequence[int]) -> None:
        """Note for each of some groups, equal otherwise, the ones that differ from it in a key."""
        own = self._column(key)
        numbers, jobs = Counter[Hashable](), Counter[Hashable]()
        for group in members:
            numbers[own[group]] += 1
            jobs[own[group]] += self.sizes[group]
        total = sum(jobs.values())
        for group in members if len(numbers) > 1 else ():
            there = len(members) - numbers[own[group]]
            self.found[group][key] = _Alike(total - jobs[own[group]], there, members)

    def _column(self, key: str) -> list[Hashable]:
        return self.columns[_named(key)]

    def _text(self, group: int, key: str) -> str:
        return show(self.values[group].get(_named(key)))


def _named(key: str) -> str:
    """The key whose value tells groups apart: of a choice its name."""
    return f"{key}.name" if key in SECTIONS else key


def _hashable(value: Any) -> Hashable:
    """A plain value that equals another one exactly if these do."""
    if isinstance(value, list):
        return ("list", *map(_hashable, value))
    return ("dict", *((key, _hashable(item)) for key, item in value.items())) if isinstance(value, dict) else value
