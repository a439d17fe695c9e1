"""Former dotted paths of classes, so that run folders of earlier days are read with the classes of today."""

from typing import Any

_TASKS = {
    "tasks.glue": "tasks.glue.task",
    "tasks.lra_image": "tasks.lra.image",
    "tasks.lra_listops": "tasks.lra.listops",
    "tasks.lra_pathfinder": "tasks.lra.pathfinder",
    "tasks.lra_retrieval": "tasks.lra.retrieval",
    "tasks.lra_text": "tasks.lra.text",
    "tasks.mathematics": "tasks.mathematics.task",
    "tasks.pcfg": "tasks.pcfg.task",
    "tasks.scan": "tasks.scan.task",
    "tasks.sort_of_clevr": "tasks.sort_of_clevr.task",
    "tasks.wikitext2": "tasks.wikitext.wikitext2",
    "tasks.wikitext103": "tasks.wikitext.wikitext103",
    "tasks.wikitext103_masked": "tasks.wikitext.wikitext103_masked",
}
"""modules of tasks that moved, their classes kept their names"""


def with_present_targets(value: Any) -> Any:
    """A copy of a configuration, or of a part of it, in which every `_target_` is named by its present path."""
    if isinstance(value, dict):
        return {key: _present(item) if key == "_target_" else with_present_targets(item) for key, item in value.items()}
    return [with_present_targets(item) for item in value] if isinstance(value, list) else value


def _present(target: Any) -> Any:
    module, _, name = str(target).removeprefix("attnlab.").rpartition(".")
    known = isinstance(target, str) and target.startswith("attnlab.") and module in _TASKS
    return f"attnlab.{_TASKS[module]}.{name}" if known else target
