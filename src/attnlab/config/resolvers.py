"""Resolvers `${name:...}` for yaml files: `choose`, a value by case, and `run_of`, the folder of another run.

Importing this module registers them with OmegaConf; modules that resolve an experiment's configuration import it.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.compose import choice_named, compose_with_hydra
from attnlab.config.fill_defaults import completed
from attnlab.config.run_identity import find_run_folder

_trained_by: dict[str, str] = {}
"""run folders that `run_of` returned, each with its experiment; for messages only"""


def choose(case: Any, values: Mapping[Any, Any], otherwise: Any) -> Any:
    """The value of a case, for a key that depends on a swept one.

    `${choose:${model.feed_forward},{glu:2048},3072}` is 2048 if the feed-forward part is a GLU, else 3072.
    """
    return values.get(case, otherwise)


def run_of(experiment: str, model: str, seed: int, runs: str) -> str:
    """The run folder of an experiment for a model and a seed, below `paths.runs`; it need not exist.

    `${run_of:qin2022/table5_pretraining,${model.name},${seed},${paths.runs}}`
    """
    config = _composed(experiment, model)
    folder = str(find_run_folder(config | {"seed": seed, "paths": config["paths"] | {"runs": runs}}))
    _trained_by[folder] = experiment
    return folder


def trained_by(folder: str) -> str | None:
    """The experiment that trains a run folder which `run_of` returned."""
    return _trained_by.get(folder)


@cache
def _composed(experiment: str, model: str) -> dict[str, Any]:
    words = [f"experiment={experiment}", f"model={choice_named('model', model)}"]
    return completed(compose_with_hydra(words)[0])


OmegaConf.register_new_resolver("choose", choose, replace=True)
OmegaConf.register_new_resolver("run_of", run_of, replace=True)
