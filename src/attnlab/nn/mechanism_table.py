"""Tables of all attention mechanisms and positions, made from the classes: the first part of `docs/models.md`.

Equation, paper and cost are read from the first lines of a class's file, forms and size of the state from the class.

    python -m attnlab.nn.mechanism_table docs/models.md     writes the tables between their two marks in the page
"""

import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.attention.base import Attention
from attnlab.attention.positions.base import Positions
from attnlab.config.classes.words import POSITIONS, names_in, positions_path
from attnlab.config.conf_files import aliases, group_choices
from attnlab.config.fill_defaults import model_yaml
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import attention_nodes, constructor_arguments, load_class, signature_of
from attnlab.config.validation.rule_view import FORMS
from attnlab.nn.network_parts import positions_named

WIDTH, HEADS, LENGTHS = 128, 8, (100, 1000)
"""sizes for which states are counted, and numbers of tokens read"""
LETTERS = (
    "Letters: N queries, M keys, H heads; widths D of a head, E of the model, K of a key, C of a value (in FLASH: "
    "positions of a chunk); F features. Other letters are those of the paper, explained in the mechanism's file."
)
MARKS = "<!-- tables of attnlab.nn.mechanism_table -->", "<!-- end of the tables -->"
TESTS = CONF.parent / "tests"


@dataclass
class Mechanism:
    """A class of attention, the options that a yaml sets, and the models that have it."""

    kind: Any
    options: Mapping[str, Any]
    models: list[str] = field(default_factory=list)


def mechanisms() -> dict[str, Mechanism]:
    """Every class that a model yaml names for its encoder or decoder, with the options of its first model."""
    collected: dict[str, Mechanism] = {}
    for model in (name for name in group_choices()["model"] if "/" not in name):
        for _, slot, node in attention_nodes(model_yaml(model)):
            options = {key: value for key, value in node.items() if key != "_target_"}
            mechanism = collected.setdefault(node["_target_"], Mechanism(signature_of(node).cls, options))
            if slot != "cross" and model not in mechanism.models:
                mechanism.models.append(model)
    return {path: each for path, each in collected.items() if each.models}


def tables() -> str:
    """Both tables, as Markdown."""
    head = "| mechanism | models | equation | cost | state | forms | paper | tests |"
    rows = [_row(mechanism) for mechanism in mechanisms().values()]
    text = [
        f"State: numbers that decoding keeps for one self-attention at d_model={WIDTH}, n_heads={HEADS}, after "
        f"{LENGTHS[0]} and {LENGTHS[1]:,} tokens. {LETTERS}\n",
        *_table(head, sorted(rows)),
        "",
        f"Names in papers and libraries, which error messages understand: {_names_elsewhere()}.",
        "",
        *_table("| positions | in scores | mechanisms that can | paper | tests |", list(_position_rows())),
    ]
    return "\n".join(text) + "\n"


def _names_elsewhere() -> str:
    names: dict[str, list[str]] = {}
    for name, model in aliases("model").items():
        names.setdefault(model, []).append(name)
    return "; ".join(f"{', '.join(each)} (`{model}`)" for model, each in names.items())


def _table(head: str, rows: list[list[str]]) -> Iterator[str]:
    yield head
    yield "| --- " * (head.count("|") - 1) + "|"
    yield from (f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows)


def _row(mechanism: Mechanism) -> list[str]:
    kind, text = mechanism.kind, _Opening(mechanism.kind)
    longest = {"max_length": max(LENGTHS)} if "max_length" in constructor_arguments(kind) else {}
    attention = kind(WIDTH, HEADS, **{**longest, **mechanism.options})
    forms = [form for form in FORMS if getattr(attention, f"supports_{form}")]
    forms = [f"{form} (cross)" if form == "step" and "causal" not in forms else form for form in forms]
    forms += [
        f"{each.removeprefix('supports_')} (`{key}`)" for key, by in kind.limits.items() for each in by.get(False, ())
    ]
    models = ", ".join(f"`{name}`" for name in mechanism.models)
    cost = f"`{text.cost}`" if text.cost else ""
    head = [f"`{kind.__name__}`", models, f"`{text.equation}`", cost]
    return [*head, state_of(attention), ", ".join(forms), text.paper, _tests(kind)]


def state_of(attention: Attention) -> str:
    """Size of the state; two numbers where it grows."""
    sizes = [attention.state_size(length) for length in LENGTHS]
    if not attention.supports_causal or not attention.supports_step:
        return "-"
    return f"{sizes[0]:,}" if sizes[0] == sizes[1] else f"{sizes[0]:,}, {sizes[1]:,}"


class _Opening:
    """Equation, paper and cost from the first lines of a class's file."""

    def __init__(self, kind: Any) -> None:
        text = inspect.getdoc(inspect.getmodule(kind)) or ""
        first = " ".join(re.split(r"\n\s*\n", text)[0].split())
        indented = [line.strip() for line in text.splitlines() if line.startswith("    ")]
        block = re.search(r"\n\n((?:    .*\n)+)", text)
        of_class = [line.removeprefix(kind.__name__) for line in indented if line.startswith(f"{kind.__name__} ")]
        outputs = [line for line in indented if re.search(r"\bout(_\w+)? = ", line) and issubclass(kind, Attention)]
        whole = ["; ".join(block.group(1).split("\n    ")) if block else first]
        self.equation = re.sub(
            r"\s{2,}", "  ", (of_class or (whole if outputs else indented[:1]) or [first])[0]
        ).strip()
        words = " ".join(text.split())
        self.cost = _first_order(words[max(words.find(f"{kind.__name__} O("), 0) :])
        paper = re.search(r"\(([A-Z][^()]*?\d{4}[^()]*)\)", first)
        self.paper = paper.group(1).partition(";")[0] if paper else ""


def _first_order(text: str) -> str:
    """The first O(...) of a text, with the parentheses in it; empty without one."""
    begin = text.find("O(")
    for end in range(begin + 2, len(text)) if begin >= 0 else ():
        if text[begin:end].count("(") == text[begin:end].count(")"):
            return text[begin:end]
    return ""


def _tests(kind: Any) -> str:
    """Links to the slow reference, and the number of golden files."""
    name = kind.__module__.rpartition(".")[2]
    folder = "reference/positions" if issubclass(kind, Positions) else "reference"
    reference = f"[reference](../tests/{folder}/{name}.py)" if (TESTS / folder / f"{name}.py").exists() else ""
    files = (TESTS / "golden").glob(f"{'positions_' if issubclass(kind, Positions) else ''}{name}_*.npz")
    return ", ".join(filter(None, (reference, "golden" if any(files) else "")))


def _position_rows() -> Iterator[list[str]]:
    for name in names_in(POSITIONS):
        kind = load_class(positions_path(name), Positions)
        text, needs = _Opening(kind), positions_named(name).needs
        kinds = (item.kind for item in mechanisms().values())
        capable = sorted(f"`{each.__name__}`" for each in kinds if needs and getattr(each, needs))
        equation = f"`{text.equation}`" if needs else text.equation
        yield [f"`{name}`", equation, ", ".join(capable) or "all", text.paper, _tests(kind)]


def with_tables(page: str) -> str:
    """The page with the present tables between the marks."""
    before, rest = page.split(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{tables()}\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("python -m attnlab.nn.mechanism_table docs/models.md: expected one file, a page with the two marks")
    file = Path(sys.argv[1])
    file.write_text(with_tables(file.read_text()))
