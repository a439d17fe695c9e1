"""Coverage of the laws: every model yaml has a representative in them."""

import json
from dataclasses import dataclass
from functools import cache

import pytest
from support.model_cases import (
    IN_SCORES,
    TASKS,
    Case,
    backbone_of,
    cases,
    distinct_for,
    model_of,
    models_for,
    network_of,
    positions_of,
    slots,
)
from torch import nn

from attnlab.config.conf_files import group_choices

OF_THE_LOSS = ("orthogonality", "ortho_form")


@dataclass(frozen=True)
class Description:
    """Class, settings and shapes of a module and its parts, and the form of each orthogonality loss."""

    parts: list[tuple]
    losses: list[str | None]

    def covers(self, other: "Description") -> bool:
        """Whether it is the other one, with the loss wherever the other has it."""
        return self.parts == other.parts and all(
            theirs in (None, separate) for separate, theirs in zip(self.losses, other.losses, strict=True)
        )


def described(module: nn.Module) -> Description:
    parts, losses = [], []
    for path, part in module.named_modules():
        settings = {key: repr(value) for key, value in vars(part).items() if not key.startswith("_")}
        loss, form = (settings.pop(key, None) for key in OF_THE_LOSS)
        losses.append(f"form {form}" if loss == "True" else None)
        parts.append((path, type(part), settings, {name: value.shape for name, value in part.state_dict().items()}))
    return Description(parts, losses)


@cache
def attention(case: Case) -> Description:
    return described(case.make())


@cache
def network(model: str, task: str, positions: str) -> Description:
    return described(network_of(model, task, positions=positions))


@pytest.mark.parametrize("model", group_choices()["model"])
def test_every_attention_of_a_yaml_is_in_a_case(model: str) -> None:
    """With the positions of its yaml; its mechanism also with all others that act in scores and that it can have."""
    separate = model_of(model).positions or backbone_of(model, "sort_of_clevr").positions
    for slot, node in slots(model_of(model)):
        wanted = Case(model, slot, json.dumps(node, sort_keys=True), separate)
        assert any(attention(case).covers(attention(wanted)) for case in cases().values()), f"none represents {wanted}"
        able = {name for name, need in IN_SCORES.items() if getattr(wanted.mechanism, need) and slot != "cross"}
        assert able <= {case.positions for case in cases().values() if case.path == wanted.path}


@pytest.mark.parametrize(("task", "model"), [(task, model) for task in TASKS for model in models_for(task)])
def test_every_network_of_a_yaml_is_in_the_laws(task: str, model: str) -> None:
    for positions in positions_of(model):
        others = (other for other in distinct_for(task) if positions in positions_of(other))
        assert any(network(other, task, positions).covers(network(model, task, positions)) for other in others)
