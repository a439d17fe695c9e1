"""Examples of every task as a user would write them in Python, and predictions compared with recorded metrics."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from attnlab.data.user_inputs import InputError
from attnlab.data.vocabulary import BytePair
from attnlab.run.loaded_run import Run
from attnlab.tasks.flip_flop.sequences import WORDS
from attnlab.tasks.lra.listops_generator import TOKENS
from attnlab.tasks.sort_of_clevr.task import COLOURS, KINDS
from attnlab.tasks.wikitext.tokens import SPECIAL, load_vocabulary


def _sequence(run: Run, part: Any, number: int) -> str:
    return run.task.separator.join(run.task.inputs.decode(part.inputs[number][1:]))


def _bytes(side: np.ndarray) -> str:
    return side.tobytes().decode()


def _question(run: Run, part: Any, number: int) -> Any:
    colour, other, kind, subtype = part.questions[number].tolist()
    second = COLOURS[other] if KINDS[kind] == "ternary" else None
    return part.pictures(np.array([number]))[0], (COLOURS[colour], second, KINDS[kind], subtype)


def _sentence(run: Run, part: Any, number: int) -> str:
    (file,) = run.data.keep.values()
    return BytePair.load(file).decode(part.inputs[number])


def _stream(run: Run, part: Any, number: int) -> str:
    """The inputs of a language model, without the first token."""
    (vocabulary,) = map(load_vocabulary, run.data.keep.values())
    pieces = {vocabulary.end_id: "\n", getattr(vocabulary, "mask_id", -1): SPECIAL[-1]}
    ids = _masked(run, part.batch(np.array([number]))).inputs[0].tolist()[1:]
    return "".join(pieces[token] if token in pieces else vocabulary.decode([token]) for token in ids)


def _masked(run: Run, batch: Any) -> Any:
    """A batch in which every predicted token is masked: bytes drawn in their place are no text."""
    if run.data.spec.kind != "masked_language_model":
        return batch
    return replace(batch, inputs=batch.targets.masked_fill(batch.scored, run.data.spec.mask_id))


def _tagged(run: Run, part: Any, number: int) -> str:
    """The words of a tagged sequence, without the empty symbols that stand for outputs."""
    return " ".join(run.task.inputs.decode(part.inputs[number][: part.lengths[number]]))


WRITTEN: dict[str, Callable[[Run, Any, int], Any]] = {
    **dict.fromkeys(("scan", "mathematics", "pcfg", "cogs", "cfq", "algorithmic"), _sequence),
    "sort_of_clevr": _question,
    "lra_listops": lambda run, part, number: " ".join(TOKENS.decode(part.inputs[number])),
    "lra_text": lambda run, part, number: _bytes(part.inputs[number]),
    "lra_retrieval": lambda run, part, number: (_bytes(part.inputs[number]), _bytes(part.others[number])),
    **dict.fromkeys(("lra_pathfinder", "lra_image"), lambda run, part, number: part.pictures(np.array([number]))[0]),
    "glue": _sentence,
    **dict.fromkeys(("wikitext103", "wikitext2", "wikitext103_masked"), _stream),
    **dict.fromkeys(("mqar", "mad", "word_problem", "formal_language"), _tagged),
    "flip_flop": lambda run, part, number: "".join(WORDS[token] for token in part.tokens(np.array([number]))[0][:-1]),
}
"""for each shipped task, an example of a subset as an input of `Run.predict`"""


def require_true_predictions(run: Run, subset: str) -> None:
    """Inputs as written are read as in the subset, and a number is refused; answers of a classifier have the recorded
    accuracy."""
    part, name = run.data.subsets[subset], run.config["task"]["name"]
    if name not in WRITTEN:
        return
    # a later block of a text begins in the middle
    most = len(part) if hasattr(part, "answers") else 1 if name in ("wikitext103", "wikitext2") else 4
    numbers = np.arange(min(most, len(part)))
    written = [WRITTEN[name](run, part, number) for number in numbers.tolist()]
    read, stored = run.task.encode_inputs(run.data, written), _masked(run, part.batch(numbers))
    for field in ("inputs", "input_lengths", "lengths", "others", "images", "questions", "scored"):
        if hasattr(stored, field) and (field != "scored" or run.data.spec.mask_id):
            assert getattr(read, field).tolist() == getattr(stored, field).tolist(), field
    with pytest.raises(InputError, match=r"^input 1( is int; expected a|: the picture is int64 of shape)"):
        run.predict([written[0], 3])
    predicted = run.predict(written)
    assert len(predicted) == len(written)
    if hasattr(part, "answers") and f"{subset}/accuracy" in run.result["metrics"]:
        right = run.task.decode_outputs(run.data, part.answers[numbers].tolist())
        accuracy = np.mean([a == b for a, b in zip(predicted, right, strict=True)])
        assert accuracy == run.result["metrics"][f"{subset}/accuracy"]
