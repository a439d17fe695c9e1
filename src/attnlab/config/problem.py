"""A problem of a command line or a configuration."""


class Problem(str):
    """The sentence on one problem, which begins with the key, or the word of the command line, that it is about.

    key: what other code may ask for, so that it need not read the sentence.
    """

    __slots__ = ("key",)
    key: str

    def __new__(cls, key: str, text: str) -> "Problem":
        """Joins key and text."""
        problem = super().__new__(cls, key + text)
        problem.key = key
        return problem

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # a text has one
        """What a copy in another process is made of."""
        return self.key, self.text

    @property
    def text(self) -> str:
        """The rest of the sentence, such as `=3: expected ...`."""
        return self[len(self.key) :]
