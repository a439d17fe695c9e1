"""Former dotted paths of classes, for run folders of earlier versions."""

from typing import Any

from attnlab.config.yaml_tables import table_beside

MOVED = {f"attnlab.{former}": f"attnlab.{present}" for former, present in table_beside(__file__).items()}
"""former paths and present paths"""


def with_present_targets(value: Any) -> Any:
    """A copy of a configuration or a part of it, with the present path of every `_target_`."""
    if isinstance(value, list):
        return [with_present_targets(item) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: with_present_targets(item) for key, item in value.items()}
    if (present := MOVED.get(str(copy.get("_target_")))) is not None:
        copy["_target_"] = present
    return copy
