"""Every model yaml on every task yaml, each file composed once; and the representatives of models in the laws.

The laws run over models whose resolved sections differ (`distinct`, and `model_cases.cases` for single attentions). A
yaml that differs from another only in its name and the orthogonality loss adds a penalty to the same outputs, so the
yaml with the loss represents both. test_laws_coverage.py builds every yaml and compares it with its representative.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from attnlab.config.conf_files import group_choices
from attnlab.config.fill_defaults import completed, model_yaml
from attnlab.config.job_config import compose_config
from attnlab.config.nearest_word import choice

MODELS = [name for name in group_choices()["model"] if "/" not in name]
"""models at the top of conf/model; one alone with `pytest --model=...`"""
IN_FOLDERS = [name for name in group_choices()["model"] if "/" in name]
"""models of a paper's tables, whose attentions the laws test too"""


def select_model(name: str) -> None:
    """Leaves one model for the laws.

    Raises:
        pytest.UsageError: there is no such model; names the nearest one.
    """
    known = [*MODELS, *IN_FOLDERS]
    if name not in known:
        raise pytest.UsageError(f"--model={name}: no file conf/model/{name}.yaml{choice(name, known, 'models')}")
    MODELS[:], IN_FOLDERS[:] = [name], []


@cache
def composed(model: str, task: str = "scan") -> dict[str, Any]:
    """The configuration of a task with a model: task yamls and model yamls own different keys, so the model's section
    is its own yaml, merged as Hydra merges it (test_config_check.py, test_compose.py)."""
    task_config = _composed_task(task)
    model_section = model_yaml(model)
    return completed(task_config | {"model": model_section})


@cache
def _composed_task(task: str) -> dict[str, Any]:
    return compose_config([f"task={task}"])


def distinct(models: Sequence[str]) -> list[str]:
    """Returns representatives: of models that differ only in name and orthogonality loss, one with each slot and form
    of the loss, or the first one if none has the loss."""
    collected: dict[str, dict[str, str]] = {}
    for model in models:
        section = dict(composed(model)["model"])
        ortho = section.pop("ortho")
        del section["name"]
        loss = json.dumps([ortho["where"], ortho["form"]]) if ortho["weight"] > 0 else ""
        collected.setdefault(json.dumps(section, sort_keys=True), {}).setdefault(loss, model)
    return [model for same in collected.values() for loss, model in same.items() if loss or len(same) == 1]
