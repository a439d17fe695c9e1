"""Final test of a run after training, with the weights that its selection rule names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.learn.evaluator import Evaluator, Findings
from attnlab.learn.validation import saved_best
from attnlab.run.read_checkpoints import best_weights, network_weights


def final_test(evaluator: Evaluator, folder: Path, saved: Mapping[str, Any]) -> tuple[Findings, dict[str, Any]]:
    """Returns metrics and counts of all test subsets, and which weights were tested by which rule.

    Args:
        evaluator: the selected weights are loaded into its network.
        folder: the run folder, with the best weights of validation.
        saved: content of the checkpoint of the last step.
    """
    best = saved_best(saved)
    selected: dict[str, Any]
    if evaluator.train.selection == "best_validation":
        evaluator.network.load_state_dict(best_weights(folder, best[""]["step"]))
        selected = {"rule": "best_validation", "step": best[""]["step"], f"val/{evaluator.metric}": best[""]["value"]}
    else:
        evaluator.network.load_state_dict(network_weights(saved))
        selected = {"rule": "last_step", "step": saved["global_step"]}
    found = evaluator.test_subsets(show=True)
    if evaluator.train.paper_rule is not None:
        selected["paper_rule"] = {"rule": evaluator.train.paper_rule}
        for group in sorted(rule for rule in best if rule):
            selected["paper_rule"][group] = step = best[group]["step"]
            evaluator.network.load_state_dict(best_weights(folder, step, group))
            numbers = evaluator.prepared.subsets["test"].groups[group]
            metrics, counts = evaluator.subset("test", numbers)
            found.add(f"test_paper_rule/{group}", {evaluator.metric: metrics[evaluator.metric]}, {"all": counts["all"]})
    return found, selected
