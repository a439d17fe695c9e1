"""What the shipped model files can do, so that an error names the models that would fit."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from attnlab.config.compose import group_choices, load_yaml, plain, unresolved
from attnlab.config.signatures import TargetError
from attnlab.config.suggest import listed
from attnlab.config.target_validation import attention_nodes, node_signature


def models_that_can(conf: Path, able: Callable[[dict[str, Any]], bool]) -> str:
    """`models that can: ...`; `able` judges the classes of a model by place and its `ortho.where` (as `ortho`).

    Those in subfolders are parts of one paper's tables and not named.
    """
    shipped = [name for name in group_choices(conf)["model"] if "/" not in name]
    names = [name for name in shipped if (found := _model_classes(name, conf)) and able(found)]
    return f"models that can: {listed(names)}"


@cache
def _model_classes(name: str, conf: Path) -> dict[str, Any]:
    """The classes of a shipped model by place, and its `ortho.where`; empty when its yaml or a class is broken."""
    model = plain(_merged(name, conf))
    where = model.get("ortho", {}).get("where", [])
    found: dict[str, Any] = {"encoder": [], "decoder": [], "cross": [], "ortho": where}
    try:
        for _, place, node in attention_nodes(model):
            found[place].append(node_signature(node))
    except TargetError:
        return {}
    return found


def _merged(name: str, conf: Path) -> DictConfig:
    node = OmegaConf.create(unresolved(load_yaml(conf / "model" / f"{name}.yaml")))
    parents = [
        parent
        for parent in (node.pop("defaults") if "defaults" in node else [])
        if isinstance(parent, str) and parent != "_self_"
    ]
    return cast("DictConfig", OmegaConf.merge(*(_merged(parent, conf) for parent in parents), node))
