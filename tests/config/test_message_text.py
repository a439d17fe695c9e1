"""Lists of words in messages."""

import pytest

from attnlab.config.message_text import braced


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ([], []),
        (["simple", "num1", "num2", "num3"], ["simple", "num1", "num2", "num3"]),
        (["num0", "num1", "num2", "num3", "simple"], ["num{0,1,2,3}", "simple"]),
        ([f"n{n}_r{r}" for n in (1, 16, 2) for r in (1, 2)], ["n{1,16,2}_r{1,2}"]),
        # one is left out, so that braces would promise too much
        (["n1_r1", "n1_r2", "n2_r1", "n2_r3"], ["n1_r1", "n1_r2", "n2_r1", "n2_r3"]),
        (["1", "2", "4", "8", "16"], ["1", "2", "4", "8", "16"]),
        (["{a: 1}", "{a: 2}", "{}", "%s"], ["{a: 1}", "{a: 2}", "{}", "%s"]),
    ],
)
def test_families_of_numbered_words_are_braced(words: list[str], shown: list[str]) -> None:
    assert braced(words) == shown


def test_numbers_are_no_family_of_names() -> None:
    numbers = ["0.0001", "0.0005", "0.001", "0.005"]
    assert braced(numbers) == numbers
    assert braced([f"num1_rep{i}" for i in range(4)]) == ["num1_rep{0,1,2,3}"]
