"""Every model yaml on every task yaml, each file composed once; and which models stand for which others in the laws.

How a yaml is covered: the laws run over models whose resolved sections differ (`distinct`, and `models.cases` for
single attentions). A yaml that is another one but for its name and the orthogonality loss adds a penalty to the same
outputs, so the one with the loss stands for both. test_laws_coverage.py builds every yaml and compares it with its
stand-in.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from attnlab.config.compose import CONF
from attnlab.config.job_config import compose_config

MODELS = sorted(file.stem for file in (CONF / "model").glob("[!_]*.yaml"))


@cache
def composed(model: str, task: str = "scan") -> dict[str, Any]:
    """The configuration of a task with a model: task yamls and model yamls own different keys, so the model's section
    in the task's configuration is the composition of both (test_config_check.py)."""
    return _composed("task", task) | {"model": _composed("model", model)["model"]}


@cache
def _composed(group: str, choice: str) -> dict[str, Any]:
    return compose_config([f"{group}={choice}"])


def distinct(models: Sequence[str]) -> list[str]:
    """Of models that differ in nothing but their name and the orthogonality loss, those with the loss, one for each
    slot and form of it; the first one where none has it."""
    found: dict[str, dict[str, str]] = {}
    for model in models:
        section = dict(composed(model)["model"])
        ortho = section.pop("ortho")
        del section["name"]
        loss = json.dumps([ortho["where"], ortho["form"]]) if ortho["weight"] > 0 else ""
        found.setdefault(json.dumps(section, sort_keys=True), {}).setdefault(loss, model)
    return [model for same in found.values() for loss, model in same.items() if loss or len(same) == 1]
