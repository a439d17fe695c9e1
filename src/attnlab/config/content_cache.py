"""Results kept by the content of plain dicts and lists: jobs of a sweep, and their run folders, are mostly alike."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class ContentCache(Generic[T]):
    """Results of a function by its content; a full cache is emptied.

    Args:
        most: results that are kept.
    """

    def __init__(self, most: int) -> None:
        self.most, self.found = most, dict[Hashable, T]()

    def get(self, content: Hashable, make: Callable[[], T]) -> T:
        """The result for a content, which callers do not change.

        Args:
            content: everything that the result depends on, such as the `repr` of plain values.
            make: computes it.
        """
        if content not in self.found:
            made = make()
            if len(self.found) >= self.most:
                self.found.clear()
            self.found[content] = made
        return self.found[content]
