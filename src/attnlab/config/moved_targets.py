"""Former dotted paths of classes, for run folders of earlier versions."""

from typing import Any

_MOVED = {
    "attention.nystrom.NystromAttention": "attention.nystromformer.NystromAttention",
    "attention.nystrom.SkyformerAttention": "attention.skyformer.SkyformerAttention",
    "tasks.glue.Glue": "tasks.glue.task.Glue",
    "tasks.lra_image.LraImage": "tasks.lra.image.LraImage",
    "tasks.lra_listops.LraListops": "tasks.lra.listops.LraListops",
    "tasks.lra_pathfinder.LraPathfinder": "tasks.lra.pathfinder.LraPathfinder",
    "tasks.lra_retrieval.LraRetrieval": "tasks.lra.retrieval.LraRetrieval",
    "tasks.lra_text.LraText": "tasks.lra.text.LraText",
    "tasks.mathematics.Mathematics": "tasks.mathematics.task.Mathematics",
    "tasks.pcfg.Pcfg": "tasks.pcfg.task.Pcfg",
    "tasks.scan.Scan": "tasks.scan.task.Scan",
    "tasks.sort_of_clevr.SortOfClevr": "tasks.sort_of_clevr.task.SortOfClevr",
    "tasks.wikitext2.Wikitext2": "tasks.wikitext.wikitext2.Wikitext2",
    "tasks.wikitext103.Wikitext103": "tasks.wikitext.wikitext103.Wikitext103",
    "tasks.wikitext103_masked.Wikitext103Masked": "tasks.wikitext.wikitext103_masked.Wikitext103Masked",
}
MOVED = {f"attnlab.{former}": f"attnlab.{present}" for former, present in _MOVED.items()}
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
