"""Labels of attentions and of positions, as figures show them."""

import re
from collections.abc import Iterable, Sequence
from math import isqrt

from attnlab.analysis.summary_types import MOST_POSITIONS
from attnlab.config.schema import Backbone
from attnlab.data.batch import (
    Batch,
    ImageQuestionBatch,
    InputBatch,
    LabelledBatch,
    LabelledPairBatch,
    LanguageBatch,
    SequenceBatch,
)

_NAME = re.compile(r"(encoder|decoder)\.layers\.(\d+)\.(attention|cross)(?:\.attentions\.(\d+))?(?:#(\d+))?$")
"""names of attentions (`nn.attention_observer`)"""
START = "<start>"
"""label of the decoder's first position"""


def titles(names: Iterable[str]) -> dict[str, str]:
    """Titles of attentions by name: `encoder.layers.0.attention#2` becomes `encoder, layer 1, use 2`, without the use
    if there is only one. Names of another form stay as they are.
    """
    names = list(names)
    repeated = {name.partition("#")[0] for name in names if "#" in name}
    return {name: _title(name, name.partition("#")[0] in repeated) for name in names}


def _title(name: str, repeated: bool) -> str:
    match = _NAME.search(name)
    if match is None:
        return name
    stack, layer, part, member, use = match.groups()
    words = [stack, f"layer {int(layer) + 1}"]
    words += ["cross"] if part == "cross" else []
    words += [f"part {int(member) + 1}"] if member is not None else []
    return ", ".join([*words, *([f"use {use or 1}"] if repeated else [])])


def metric_names(names: Iterable[str]) -> dict[str, str]:
    """Names of attentions in metrics: `decoder.layers.0.cross` becomes `decoder/layer_0/cross`.

    Layers are counted by depth, so that layers with shared weights have numbers of their own. The stack is left out
    where there is only one. Names of another form stay as they are.

    Args:
        names: of all attentions of a network, in the order of use.
    """
    matches = {name: _NAME.search(name) for name in names}
    one_stack = len({match[1] for match in matches.values() if match}) == 1
    depths: dict[tuple[str, str], list[tuple[str, str | None]]] = {}
    named = {}
    for name, match in matches.items():
        named[name] = name
        if match is not None:
            stack, layer, part, member, use = match.groups()
            uses = depths.setdefault((stack, part), [])
            uses += [] if (layer, use) in uses else [(layer, use)]
            words = [*([] if one_stack else [stack]), f"layer_{uses.index((layer, use))}"]
            words += ["cross"] if part == "cross" else []
            named[name] = "/".join([*words, *([f"part_{member}"] if member is not None else [])])
    return named


def is_cross(name: str) -> bool:
    match = _NAME.search(name)
    return match is not None and match[3] == "cross"


class PositionLabels:
    """Labels of the positions of one example: its tokens (`names`: `Task.token_names`), or rows of image patches."""

    def __init__(self, names: tuple[Sequence[str], Sequence[str]] | None, batch: Batch, backbone: Backbone) -> None:
        self.read: dict[str, list[str]] = {}
        self.patches = isinstance(batch, ImageQuestionBatch)
        if names is None or isinstance(batch, LabelledPairBatch) or not isinstance(batch, InputBatch | LanguageBatch):
            return
        inputs, outputs = names
        tokens = [inputs[token] for token in batch.inputs[0].tolist()]
        match batch:
            case SequenceBatch():
                # the decoder reads its start (the id of the end token), then the target without its last token
                targets = [outputs[token] for token in batch.targets[0].tolist()]
                before = tokens if backbone.architecture == "decoder_only" else []
                self.read = {"encoder": tokens, "decoder": [*before, START, *targets[:-1]]}
            case LabelledBatch():
                front = ["class"] if backbone.pooling == "class_token" else []
                self.read = {"encoder": [*front, *tokens]}
            case LanguageBatch():
                self.read = {"encoder": tokens, "decoder": tokens}

    def of_queries(self, name: str, n: int) -> list[str] | None:
        """Labels of the n queries of an attention; None = they are numbered."""
        match = _NAME.search(name)
        return self._of_stack(match[1] if match else "", n)

    def of_keys(self, name: str, n: int) -> list[str] | None:
        """Labels of the n keys of an attention; None = they are numbered."""
        return self._of_stack("encoder", n) if is_cross(name) else self.of_queries(name, n)

    def _of_stack(self, stack: str, n: int) -> list[str] | None:
        labels = self.read.get(stack, [])
        return self.of_patches(n) or (labels[:MOST_POSITIONS] if len(labels) == n else None)

    def of_patches(self, n: int) -> list[str] | None:
        """Labels that all examples share: the middle patch of each row of an image; None without an image."""
        side = isqrt(n - 1)
        rows = [f"row {patch // side + 1}" if patch % side == side // 2 else "" for patch in range(side**2)]
        return ["class", *rows] if self.patches else None
