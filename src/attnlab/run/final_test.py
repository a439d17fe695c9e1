"""Final test of a run after training, with the weights that its selection rule names, and its result."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attnlab.config.schema import steps_of
from attnlab.learn.callbacks import Clock
from attnlab.learn.devices import memory_use
from attnlab.learn.evaluator import Evaluator, Findings
from attnlab.learn.validation import saved_best
from attnlab.nn.network_parts import count_parameters
from attnlab.run import provenance
from attnlab.run.fit import diagnosed, train_padding
from attnlab.run.read_checkpoints import best_weights, network_weights, read_checkpoint
from attnlab.run.run_context import RunContext


def final_test(evaluator: Evaluator, folder: Path, saved: Mapping[str, Any]) -> tuple[Findings, dict[str, Any]]:
    """Returns metrics and counts of all test subsets, and which weights were tested by which rule; with
    `train.diagnose_every` also the numbers of the attentions with these weights.

    Args:
        evaluator: the selected weights are loaded into its network; of several processes, rank 0 reads them for all.
        saved: content of the checkpoint of the last step; empty on other ranks than 0.
    """
    from_first, load = evaluator.ranks.from_first, evaluator.network.load_state_dict
    best, step = from_first(lambda: (saved_best(saved), saved["global_step"]))
    selected: dict[str, Any]
    if evaluator.train.selection == "best_validation":
        load(from_first(lambda: best_weights(folder, best[""]["step"])))
        selected = {"rule": "best_validation", "step": best[""]["step"], f"val/{evaluator.metric}": best[""]["value"]}
        if not math.isfinite(best[""]["value"]):
            last = f"the weights of the last one, step {best['']['step']:,}, are tested"
            evaluator.reporter.say(f"note: no validation had a finite val/{evaluator.metric}: {last}")
    else:
        load(from_first(lambda: network_weights(saved)))
        selected = {"rule": "last_step", "step": step}
    findings = evaluator.test_subsets(show=True)
    if evaluator.train.diagnose_every is not None and evaluator.ranks.is_first:
        findings.metrics |= diagnosed(evaluator)
    if evaluator.train.paper_rule is not None:
        selected["paper_rule"] = {"rule": evaluator.train.paper_rule}
        for group in sorted(rule for rule in best if rule):
            selected["paper_rule"][group] = step = best[group]["step"]
            load(from_first(partial(best_weights, folder, step, group)))
            for name in evaluator.tests:
                metrics, counts = evaluator.subset(name, evaluator.prepared.subsets[name].groups[group])
                prefix = f"{name.replace('test', 'test_paper_rule', 1)}/{group}"
                findings.add(prefix, {evaluator.metric: metrics[evaluator.metric]}, {"all": counts["all"]})
    return findings, selected


def record_result(run: RunContext) -> dict[str, Any] | None:
    """Test the trained network and write result.json; None on other ranks than 0."""
    config = run.config
    max_steps = steps_of(config.train)
    saved = read_checkpoint(run.folder.checkpoint) if run.ranks.is_first else {}
    findings, selected = final_test(run.evaluator, run.folder.path, saved)
    if not run.ranks.is_first:
        return None
    # One value each: in wandb they are part of the summary, instead of seventy charts with one point.
    run.sinks.file.log(max_steps, {name: value for name, value in findings.metrics.items() if name.startswith("test")})
    seconds = saved["callbacks"][Clock.__qualname__]["seconds"]
    status, spec = run.folder.status(), run.prepared.spec
    commits = status["commits"]
    selected |= _last_validation(run, selected)
    result = {
        **run.stamp,
        "metrics": findings.metrics,
        "counts": {"train": len(run.prepared.subsets["train"])} | findings.counts,
        "shortcuts": run.prepared.shortcuts,
        "selection": selected,
        "seconds": seconds,
        "steps_per_second": max_steps / seconds,
        "padding_share": train_padding(config, run.prepared),
        "peak_memory_bytes": memory_use.peak_memory_bytes(run.device),
        "parameters": count_parameters(run.network),
        "state_size": run.network.state_size(spec.max_output_length or spec.max_input_length),
        "data": status["data"] | {"about": run.prepared.about},
        **run.evaluator.debug(),
        **({"from_run": status["from_run"]} if "from_run" in status else {}),
        **provenance.origin(run.device),
        "processes": {"ranks": run.ranks.world, "nodes": run.ranks.layout.nodes},
        "git": commits[-1] | {"earlier": commits[:-1]},
    }
    run.sinks.mirrored(lambda mirror: mirror.summarise(result))
    run.folder.write_result(result, run.sinks.file)
    return result


def _last_validation(run: RunContext, selected: Mapping[str, Any]) -> dict[str, float]:
    """The main validation metric of the last step, if its weights are tested and the run has validations."""
    if selected["rule"] != "last_step" or run.config.train.validate_every is None:
        return {}
    place = steps_of(run.config.train), f"val/{run.evaluator.metric}"
    return {name: value for step, name, value in run.sinks.file.rows() if (step, name) == place}
