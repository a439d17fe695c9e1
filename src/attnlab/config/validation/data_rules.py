"""Rules about a task's data: its subsets, validation, options that nothing reads, seeds that draw nothing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from attnlab.config.conf_files import task_yaml
from attnlab.config.message_text import show
from attnlab.config.problem import Problem, UserError
from attnlab.config.targets import Signature, TargetError, signature_of
from attnlab.config.validation.rule_view import View

SHARE = "validation_share"
"""option of tasks that can set some training examples aside as `val`"""

BY = "validation_by"
"""option of tasks that can choose these examples by their length"""


def declared_subsets(task: Mapping[str, Any]) -> Sequence[str]:
    """The subsets that a task declares for these options (`Task.subsets`), with `val` where a share of the training
    examples is set aside; empty if it declares none."""
    try:
        signature = signature_of(task)
    except TargetError:
        return ()
    subsets = signature.declares("subsets") or ()
    for option, by_value in (signature.declares("subsets_with") or {}).items():
        subsets = by_value.get(task.get(option), subsets)
    if task.get(SHARE) and subsets:
        train, *tests = subsets
        subsets = (train, "val", *tests)
    return subsets


@dataclass(frozen=True)
class Ignored:
    """An option that the other options of a task leave without effect.

    because:   the option and value that leave it so, as in a message.
    read_with: what would read it.
    """

    option: str
    because: str
    read_with: str
    default: Any


def ignored_options(task: Mapping[str, Any], conf: Path) -> Iterator[Ignored]:
    """Options that nothing reads at these values of the others.

    A task option that has the name of a split belongs to that split alone (`length_cutoff` of SCAN is both). A seed
    belongs to the options that draw something (`Task.drawn_with`).
    """
    signature, defaults = signature_of(task), task_yaml(task["name"], conf)
    for chooser in task["label"]:
        annotation = signature.arguments[chooser].annotation if chooser in signature.arguments else None
        for choice in get_args(annotation) if get_origin(annotation) is Literal else ():
            if choice in signature.arguments and choice in task and task[chooser] != choice:
                default = defaults.get(choice, signature.arguments[choice].default)
                yield Ignored(choice, f"task.{chooser}={task[chooser]}", f"task.{chooser}={choice}", default)
    if BY in signature.arguments and not task.get(SHARE):
        yield Ignored(BY, f"task.{SHARE}=0", f"task.{SHARE} above 0", signature.arguments[BY].default)
    yield from _idle_seed(task, signature, defaults)


def _idle_seed(task: Mapping[str, Any], signature: Signature, defaults: Mapping[str, Any]) -> Iterator[Ignored]:
    """`data_seed`, where these options draw nothing."""
    drawn, by_length = signature.declares("drawn_with") or {}, task.get(BY) == "length"
    aside = task.get(SHARE) and not by_length
    if "data_seed" not in task or aside or any(task.get(option) in drawn[option] for option in drawn):
        return
    ways = [f"task.{option}={value}" for option in drawn for value in drawn[option]]
    if SHARE in signature.arguments:
        ways.append(f"task.{SHARE} above 0" + (f" and task.{BY}=random" if by_length else ""))
    for option in drawn:
        default = defaults.get("data_seed", signature.arguments["data_seed"].default)
        yield Ignored("data_seed", f"task.{option}={show(task.get(option))}", " or ".join(ways), default)


def ignored_problems(view: View) -> Iterator[Problem]:
    """Options with another value than their default that nothing reads."""
    task = view["task"]
    for ignored in ignored_options(task, view.conf):
        if task[ignored.option] != ignored.default:
            advice = f"read only with {ignored.read_with}; leave it at {show(ignored.default)}"
            yield Problem(f"task.{ignored.option}", f"={show(task[ignored.option])} with {ignored.because}: {advice}")


def impossible_data(view: View) -> Iterator[Problem]:
    """Options of a task that do not fit each other (`Task.require_possible`)."""
    options = {key: value for key, value in view["task"].items() if key in view.task.arguments}
    try:
        view.task.cls(**options).require_possible()
    except UserError as error:
        (key,) = re.findall(r"\A[\w.]*", str(error))
        yield Problem(key, str(error).removeprefix(key))


def validation_problems(view: View) -> Iterator[Problem]:
    """Selection by a validation set that is not there, and a validation set that nothing uses."""
    every, selection, paper = view["train.validate_every"], view["train.selection"], view["train.paper_rule"]
    task, name = view.task, view["task.name"]
    needing_validation = {("train.selection", selection): "last_step"} if selection == "best_validation" else {}
    needing_validation |= {("train.paper_rule", paper): "null"} if paper else {}
    share = view[f"task.{SHARE}"] if SHARE in task.arguments else None
    if "val" not in declared_subsets(view["task"]):
        times = {"train.validate_every": every, "train.diagnose_every": view["train.diagnose_every"]}
        needing_validation |= {(key, value): "null" for key, value in times.items() if value is not None}
        aside = "" if share is None else f", or set training examples aside, such as task.{SHARE}=0.1"
        for (key, value), instead in needing_validation.items():
            yield Problem(key, f"={value}: task {name} has no validation set; write {instead}{aside}")
    elif every is None:
        needing_validation |= {(f"task.{SHARE}", show(share)): "0"} if share else {}
        for key, value in needing_validation:
            advice = "needs validations; write train.validate_every=epoch"
            yield Problem(key, f"={value} with train.validate_every=null: {advice}")
    if paper and not task.can("has_groups"):
        yield Problem("train.paper_rule", f"={paper}: task {name} has no groups of examples to select for; write null")
    elif paper and share:
        yield Problem(
            "train.paper_rule", f"={paper}: the examples of task.{SHARE} have no groups to select for; write null"
        )


DATA_RULES = [validation_problems, ignored_problems, impossible_data]
