"""`python evaluate.py run=<folder> ...`: a trained run on any split, cutoff or length of its task, without training."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.config.command_line.command_frame import command
from attnlab.config.command_line.option_parser import options_help, read_options, unknown_options
from attnlab.config.command_line.words import with_data_set_names
from attnlab.config.job_config import JobConfig, apply_values
from attnlab.config.message_text import short_path
from attnlab.config.plain_json import json_text
from attnlab.config.problem import ConfigError, Problem
from attnlab.config.run_identity import label_options
from attnlab.learn.metric_units import headlines, length_lines, shortcut_lines, text, whole
from attnlab.run.evaluate_options import EvaluateOptions
from attnlab.run.named_runs import config_here, folder_words, subset_problem
from attnlab.run.run_folder import RunError, inner_folder, read_config, require_writable, write_text

HELP = f"""python evaluate.py run=<run folder> [key=value ...]

Evaluates a finished or stopped run without training it.

{options_help(EvaluateOptions, 19)}
  task.*=...       another split, length or data set of the same task: task.split=simple, task.length_cutoff=30,
                   task.eval_length=1024
  train.eval_batch_size=..., train.eval_batches=... (so many of each subset; of a run with debug=smoke null for all),
  trainer.*=..., paths.*=...
"""

LONGEST_NAME = 150
ELSEWHERE = "choose another folder with out="
ALLOWED = ("task.", "trainer.", "paths.", "train.eval_batch_size", "train.eval_batches")


@command(lambda: HELP)
def evaluate_main(argv: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    options, overrides = _options_and_overrides(argv)
    job = _job(options, overrides)
    file = (options.out or inner_folder(options.run, "evaluations")) / f"{_label(options, job)}.json"
    require_writable(file.parent, ELSEWHERE)
    from attnlab.run.evaluate_run import evaluate_run

    report = evaluate_run(options, job)
    # shown before it is written, as the disk may be full
    _show(report["metrics"])
    lines = length_lines(report["metrics"]) + shortcut_lines(report["shortcuts"], headlines(report["metrics"]))
    print("".join(f"{line}\n" for line in lines), end="")
    write_text(file, json_text(report, indent=2) + "\n", ELSEWHERE)
    print(f"written to {short_path(file)}")
    return 0


def _options_and_overrides(argv: Sequence[str]) -> tuple[EvaluateOptions, list[str]]:
    """The options of this command, and the overrides of the run's configuration.

    Raises:
        ConfigError: a malformed one, all problems at once.
    """
    line = read_options(EvaluateOptions, argv, folder_words(argv, ("run",)))
    unknown = [word for word in line.others if not {".", "/"} & set(word.split("=")[0])]
    problems = line.problems + unknown_options(EvaluateOptions, unknown, ALLOWED)
    if problems or line.options is None:
        raise ConfigError(problems, "evaluate.py")
    return line.options, line.others


def _job(options: EvaluateOptions, overrides: Sequence[str]) -> JobConfig:
    """The run's own configuration with the overrides set.

    Raises:
        ConfigError: no run folder, overrides that do not fit, or a subset that the task does not have.
    """
    try:
        raw = config_here(options.run)
    except RunError as error:
        raise ConfigError([Problem("", str(error))], "evaluate.py") from None
    job = apply_values(raw, with_data_set_names(overrides, raw["task"]), ALLOWED)
    if options.subset and (problem := subset_problem(job.typed.task, options.subset)):
        length = re.search(r"/length_(\d+)$", options.subset)
        advice = f"; one length alone: lengths={length[1]}" if length else ""
        raise ConfigError([problem.with_note(advice)], "evaluate.py")
    return job


def _label(options: EvaluateOptions, job: JobConfig) -> str:
    """File name of the findings: task and split, changed task options, subset, lengths, checkpoint, changed batches."""
    trained = read_config(options.run / "config.yaml")
    former, task = trained["task"], job.typed.task
    shown = {"label", "from_run", *label_options(task), *label_options(former)}
    parts = [f"{key}={task[key]}" for key in task if key not in shown and task[key] != former.get(key)]
    choices: dict[str, Any] = {name: getattr(options, name) for name in ("subset", "lengths", "checkpoint")}
    batches = job.typed.train.eval_batches
    choices |= {"eval_batches": batches if batches != trained["train"].get("eval_batches") else None}
    parts += [f"{key}={value}" for key, value in choices.items() if value]
    name = ",".join([job.label, *parts]).replace("/", "_")
    return name if len(name) <= LONGEST_NAME else f"{name[:80]},{hashlib.sha256(name.encode()).hexdigest()[:10]}"


def _show(metrics: Mapping[str, Any]) -> None:
    """Prints the metrics of whole subsets and groups, numbers right-aligned."""
    shown = {name: text(name, value) for name, value in whole(metrics).items()}
    names, values = (max(map(len, column), default=0) for column in (shown, shown.values()))
    for name, value in shown.items():
        print(f"{name:<{names}}  {value:>{values}}", flush=True)
