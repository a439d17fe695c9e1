"""Options of attentions that are written in several ways and mean the same: null for a value of the class, and values
whose numbers differ by rounding alone."""

from collections.abc import Mapping
from typing import Any, cast

from attnlab.config.dotted_keys import copied
from attnlab.config.plain_yaml import table_beside
from attnlab.config.targets import attention_sections, values_of_null

_EQUAL: dict[str, dict[str, Any]] = table_beside(__file__)["equal_but_for_rounding"]
"""by the path of a class and by option, the present value and the former one"""


def with_nulls(flat: dict[str, Any]) -> dict[str, Any]:
    """Flattened values with null for options of attentions that have the value for which null stands."""
    nulls = {
        key.replace("_target_", name): value
        for key, target in flat.items()
        if key.startswith("model.") and key.endswith("._target_")
        for name, value in values_of_null({"_target_": target}).items()
    }
    return flat | {key: None for key, value in nulls.items() if key in flat and flat[key] == value}


def former_value(target: Any, option: str, value: Any) -> Any:
    """The former value of an option for the present one, where their numbers differ by rounding alone."""
    now, former = _EQUAL.get(str(target), {}).get(option, (None, None))
    return former if value == now else value


def with_former_values(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration with the former values of options whose numbers differ by rounding alone: one run either way."""
    if not any(node.get("_target_") in _EQUAL for _, node in attention_sections(config.get("model"))):
        return config
    model = copied(config["model"])
    for _, node in attention_sections(model):
        target = node.get("_target_")
        former = {option: former_value(target, option, value) for option, value in node.items()}
        cast("dict[str, Any]", node).update(former)
    return {**config, "model": model}
