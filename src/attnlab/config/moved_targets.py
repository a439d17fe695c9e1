"""Former dotted paths of classes, for run folders of earlier versions."""

from typing import Any

MOVED = {
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
"""former paths and present paths, below `attnlab`"""


def with_present_targets(value: Any) -> Any:
    """A copy of a configuration or a part of it, with the present path of every `_target_`."""
    if isinstance(value, list):
        return [with_present_targets(item) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: with_present_targets(item) for key, item in value.items()}
    former = str(copy.get("_target_")).removeprefix("attnlab.")
    return copy | {"_target_": f"attnlab.{MOVED[former]}"} if former in MOVED else copy
