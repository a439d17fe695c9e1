"""Rules about combinations: settings that are valid one by one and impossible together."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf.errors import OmegaConfBaseException

from attnlab.config.classes.words import POSITIONS, names_in
from attnlab.config.conf_files import UserConfError, cached_per_folder, choice_named, group_choices
from attnlab.config.fill_defaults import completed, model_yaml
from attnlab.config.layer_plan import covered_slots
from attnlab.config.message_text import hint, listed, show
from attnlab.config.nearest_word import nearest
from attnlab.config.problem import Problem
from attnlab.config.targets import MECHANISM, Signature, TargetError, attention_nodes, attention_sections, signature_of
from attnlab.config.user_path import FOLDERS, PATH_OPTIONS, expanded, path_problem
from attnlab.config.validation.rule_view import SLOTS, Unknown, View

NOT_ALWAYS_READ: dict[str, tuple[bool | str | None, str]] = {
    "tied_output": (False, "has no output tokens"),
    "n_decoder_layers": (None, "has no second stack"),
    "architecture": ("encoder_decoder", "has no output after its input"),
    "prefix": ("causal", "has no output after its input"),
    "pooling": ("mean", "does not classify token sequences"),
    "d_classifier": (None, "does not classify token sequences"),
}
"""keys of the backbone that not every network reads, with the value that says nothing, and why others are refused"""


def models_that_can(conf: Path, condition: Callable[[dict[str, Any]], bool]) -> str:
    """`models that can: ...`, for messages; models in subfolders belong to one paper's tables and are left out.

    Args:
        condition: takes the classes of a model by slot and, as `ortho`, its `ortho.where`.
    """
    shipped = {name: _model_classes(name, conf) for name in group_choices(conf)["model"] if "/" not in name}
    return f"models that can: {listed(name for name, classes in shipped.items() if classes and condition(classes))}"


@cached_per_folder
def _model_classes(name: str, conf: Path) -> dict[str, Any]:
    """The classes of a shipped model by slot, and its `ortho.where`; empty if its yaml or a class is broken."""
    classes: dict[str, Any] = {"encoder": [], "decoder": [], "cross": []}
    try:
        model = model_yaml(name, conf)
        for _, slot, node in attention_nodes(model):
            classes[slot].append(signature_of(node))
    except (TargetError, UserConfError, OmegaConfBaseException):
        return {}
    return classes | {"ortho": model.get("ortho", {}).get("where", [])}


def all_can(signatures: list[Signature], capability: str) -> bool:
    """Whether there are classes and each has a capability."""
    return bool(signatures) and all(signature.can(capability) for signature in signatures)


def _kind_exists(view: View) -> Iterator[Problem]:
    try:
        view.kind_class  # noqa: B018
    except TargetError as error:
        yield Problem("task.name", f"={view['task.name']}: its kind {view.kind}: {error}")


def _positions_exist(view: View) -> Iterator[Problem]:
    key, value = view.positions
    names = names_in(POSITIONS)
    if "." not in value and value not in names:
        yield Problem(key, f"={value}: expected one of {listed(names)}{hint(nearest(value, names))}")
        return
    try:
        view.positions_class  # noqa: B018
    except TargetError as error:
        yield Problem(key, f"={value}: {error}")


def _heads(view: View) -> Iterator[Problem]:
    inner, heads = view["backbone.d_attention"], view["backbone.n_heads"]
    key = "backbone.d_model" if inner is None else "backbone.d_attention"
    width = view[key]
    if width % heads:
        near = min(divisors(width), key=lambda n: abs(n - heads))
        yield Problem("backbone.n_heads", f"={heads} with {key}={width}: does not divide it; nearest: {near}")


def _inner_width(view: View) -> Iterator[Problem]:
    width, can = view["backbone.d_attention"], "supports_inner_width"
    lacking = [item.name for _, _, item in view.attentions() if width is not None and not item.can(can)]
    if lacking:
        capable_models = models_that_can(view.conf, lambda classes: all_can(classes["encoder"], can))
        refusal = f"{lacking[0]} (model {view['model.name']}) has no inner width of its own"
        yield Problem("backbone.d_attention", f"={width}: {refusal}; write null, or {capable_models}")


def divisors(number: int) -> list[int]:
    """The divisors of a number, ascending; found in pairs, so that large numbers are fast too."""
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def _slots_filled(view: View) -> Iterator[Problem]:
    """Models without a decoder or cross-attention serve the tasks that need none."""
    for slot in view.needs:
        if view[f"model.{slot}"] is None:
            needs = f"task {view['task.name']} ({view.kind}) needs {SLOTS[slot]}{_unless_causal(view)}"
            example = f"add to the yaml of model {view['model.name']}: {_example(view, slot)}"
            yield Problem(f"model.{slot}", f"=null: {needs}; {example}")


def _example(view: View, slot: str) -> str:
    """A line of yaml for a slot that a model leaves out: the encoder's attention where it has the form."""
    if slot == "decoder":
        return "decoder: ${.encoder}"
    paths = (item.path for _, _, item in view.attentions("encoder") if item.can(f"supports_{slot}"))
    return f"{slot}: {{_target_: {next(paths, 'attnlab.attention.softmax.SoftmaxAttention')}}}"


def _own_mechanism(view: View) -> Iterator[Problem]:
    """A row has the name of a model whose attention its network uses, whatever a preset or a command sets."""
    model, plain_model = view["model"], _plain_model(view["model.name"], view.conf)
    own = {str(node.get("_target_")): None for _, node in attention_sections(plain_model)}
    used = {key: (signature, view[key]) for key, _, signature in view.attentions()}
    name, preset = view["model.name"], view.config.get("experiment")
    if own and used and not any(signature.path in own for signature, _ in used.values()):
        classes = listed(path.rpartition(".")[2] for path in own)
        by = f" of experiment={preset}" if preset else ""
        claim = f"={next(iter(used.values()))[0].name}{by}: model {name} has no {classes} in this network"
        yield Problem(next(iter(used)), f"{claim}; write {MECHANISM} there, or make a conf/model yaml of this network")
    of_yaml = plain_model.get("mechanism") or {}
    for option, value in (model.get("mechanism") or {}).items():
        if value == of_yaml.get(option) or any(node.get(option) == value for _, node in used.values()):
            continue
        text = f"={show(value)}: no attention of this network has it, as each has options of its own; set them"
        yield Problem(f"model.mechanism.{option}", f"{text}: {listed(f'{key}.{option}' for key in used)}")


@cached_per_folder
def _plain_model(name: str, conf: Path) -> Mapping[str, Any]:
    """The model as its yaml file has it, with defaults; empty without a readable file; nobody changes it."""
    try:
        yaml = model_yaml(choice_named("model", name, conf), conf)
    except (UserConfError, OmegaConfBaseException):
        return {}
    section: Mapping[str, Any] = completed({"model": yaml})["model"]
    return section


def _shares(view: View) -> Iterator[Problem]:
    for slot in [slot for slot in view.needs if slot != "cross"]:
        groups = view[f"model.{slot}"]
        if groups is None or (slot == "decoder" and groups == view["model.encoder"]):
            continue
        shares = [group["share"] for group in groups]
        numbers = [share for share in shares if share is not None]
        key, claim = f"model.{slot}", f": shares {show(shares)} of its groups"
        if len(shares) - len(numbers) > 1:
            yield Problem(key, f"{claim}: null (what the others leave) is for one of them; write numbers for the rest")
        elif len(numbers) < len(shares) and sum(numbers) > 1 + 1e-6:
            yield Problem(key, f"{claim} add up to {sum(numbers):.6g} without the one that is null; expected at most 1")
        elif len(numbers) == len(shares) and abs(sum(numbers) - 1) > 1e-6:
            yield Problem(key, f"{claim} add up to {sum(numbers):.6g}; expected 1")


def _lacking(view: View) -> Iterator[tuple[str, str, Signature, list[str]]]:
    """Key, slot and class of attentions without a form that they need, and the capabilities they lack."""
    for key, slot, signature in view.attentions():
        if lacking := [f"supports_{need}" for need in view.needs[slot] if not signature.can(f"supports_{need}")]:
            yield key, slot, signature, lacking


def _unless_causal(view: View) -> str:
    """A wiring of one causal decoder, where this model can do this task with it."""
    wirings: list[tuple[str, dict[str, Any]]] = [("backbone", {"architecture": "decoder_only", "prefix": "causal"})]
    if "causal" in view["task"]:
        wirings.append(("task", {"causal": True}))
    for section, values in wirings:
        alone = view.with_values(section, values)
        if view["model.decoder"] is not None and alone.needs != view.needs and not list(_lacking(alone)):
            changed = ((f"{section}.{key}", value) for key, value in values.items())
            words = (f"{key}={show(value)}" for key, value in changed if view[key] != value)
            return f" unless {' and '.join(words)}"
    return ""


def _directions(view: View) -> Iterator[Problem]:
    all_needs = [(slot, f"supports_{need}") for slot, forms in view.needs.items() for need in forms]
    for key, slot, signature, lacking in _lacking(view):
        forms = " and no ".join(name.removeprefix("supports_") for name in lacking)
        cost = signature.unsupported.get(lacking[0], "")
        capable_models = models_that_can(
            view.conf, lambda classes: all(all_can(classes[slot], name) for slot, name in all_needs)
        )
        alone = view["backbone.architecture"] == "decoder_only" and "encoder" not in view.needs
        place = "in its one decoder" if alone else "there"
        needed = f"which a task of kind {view.kind} needs {place}{_unless_causal(view)}"
        yield Problem(key, f"={signature.name}: has no {forms} form{cost}, {needed}; {capable_models}")


def _options_fit(view: View) -> Iterator[Problem]:
    """Options of an attention that do not fit each other, the widths, or this machine (`Attention.misfit`)."""
    width, heads = view["backbone.d_model"], view["backbone.n_heads"]
    for key, _, signature in view.attentions() if width % heads == 0 else ():
        if misfit := signature.declares("misfit")(width, heads, view[key]):
            yield Problem(f"{key}.{misfit.partition('=')[0]}", f"={misfit.partition('=')[2]}")


def _positions_possible(view: View) -> Iterator[Problem]:
    key, value = view.positions
    need = view.positions_class.needs
    lacking = [item for _, _, item in view.attentions("encoder", "decoder") if need and not item.can(need)]
    if lacking:
        capable_models = models_that_can(
            view.conf, lambda classes: all_can(classes["encoder"] + classes["decoder"], need)
        )
        refusal = f"not possible with {lacking[0].name} (model {view['model.name']})"
        yield Problem(key, f"={value}: {refusal}; {capable_models}")
    width, heads = view["backbone.d_attention"] or view["backbone.d_model"], view["backbone.n_heads"]
    # keys of a recurrence may be narrower
    nodes = (view[path] for path, _, _ in view.attentions("encoder", "decoder"))
    columns = min((round((node.get("key_expansion") or 1.0) * width) for node in nodes), default=width)
    if width % heads == 0 and (misfit := view.positions_class.misfit(columns, heads)):
        yield Problem(key, f"={value}: {misfit}")


def _ortho(view: View) -> Iterator[Problem]:
    weight, where = view["model.ortho.weight"], view["model.ortho.where"]
    if not weight > 0:
        return
    key, claim, name = "model.ortho.weight", f"={show(weight)}", view["model.name"]
    used = covered_slots(where, list(view.needs))
    lacking = {item.name for _, _, item in view.attentions(*used) if not item.can("supports_orthogonality")}
    capable_models = models_that_can(view.conf, lambda classes: bool(classes["ortho"]))
    if not where:
        name_it = "" if lacking else f", or name its slots: model.ortho.where=[{next(iter(view.needs))}]"
        problem = f"model {name} has no orthogonality loss (model.ortho.where is empty)"
        yield Problem(key, f"{claim}: {problem}; {capable_models}{name_it}")
    elif not used:
        problem = f"model.ortho.where={show(where)} names no attention of task {view['task.name']}"
        yield Problem(key, f"{claim}: {problem}; it has {listed(view.needs)}")
    elif lacking:
        problem = f"{listed(sorted(lacking))} (model {name}) has no orthogonality loss"
        yield Problem(key, f"{claim}: {problem}; {capable_models}")


def _normalization(view: View) -> Iterator[Problem]:
    """Settings of the norm of queries and keys that no attention reads."""
    normalizing = [item for _, _, item in view.attentions() if "normalization" in item.arguments]
    read = {name for item in normalizing for name in item.declares("reads_normalization")}
    defaults = {"kind": "none", "placement": "after_feature_map", "denominator": True, "eps": None, "only": None}
    for name, silent in defaults.items():
        key, value = f"model.normalization.{name}", view[f"model.normalization.{name}"]
        if name in read or value == silent or (name == "placement" and not normalizing):
            continue
        action = f"reads {name}" if normalizing else "normalises queries and keys"
        capable_models = models_that_can(view.conf, partial(_normalizing, name))
        yield Problem(key, f"={show(value)}: no attention of model {view['model.name']} {action}; {capable_models}")


def _normalizing(name: str, classes: dict[str, Any]) -> bool:
    """Whether an attention of an encoder reads a key of `model.normalization`."""
    normalizing = (item for item in classes["encoder"] if "normalization" in item.arguments)
    return any(name in item.declares("reads_normalization") for item in normalizing)


def _unread(view: View) -> Iterator[Problem]:
    """Settings of the backbone that the network of this kind of task does not read."""
    name, pictures = view["task.name"], view.task.declares("modality") == "image_question"
    for key, (silent, why) in NOT_ALWAYS_READ.items():
        if key in view.kind_class.reads and not pictures:
            continue
        try:
            value = view[f"backbone.{key}"]
        except Unknown:
            continue
        if value != silent:
            yield Problem(f"backbone.{key}", f"={show(value)}: task {name} ({view.kind}) {why}; write {show(silent)}")
    key, value = view.positions
    if pictures and not view.positions_class.for_patches:
        yield Problem(key, f"={value}: the patches of task {name} have no {value} positions; write sinusoidal or none")


def _one_stack(view: View) -> Iterator[Problem]:
    """Settings of the backbone that only one of the two architectures reads."""
    if "architecture" not in view.kind_class.reads:
        return
    prefix, layers, key = view["backbone.prefix"], view["backbone.n_decoder_layers"], "backbone.architecture"
    if view[key] == "decoder_only" and layers is not None:
        yield Problem("backbone.n_decoder_layers", f"={layers} with {key}=decoder_only: no second stack; write null")
    if view[key] == "encoder_decoder" and prefix != "causal":
        yield Problem(
            "backbone.prefix", f"={prefix}: the encoder sees all of the input anyway; write {key}=decoder_only"
        )


def _steps(view: View) -> Iterator[Problem]:
    if view["train.max_steps"] is None and view["train.max_epochs"] is None:
        yield Problem(
            "train.max_steps", "=null: needs train.max_epochs, the passes over the training data; both are null"
        )
    elif view["train.max_steps"] is not None and view["train.max_epochs"] is not None:
        epochs, steps = view["train.max_epochs"], view["train.max_steps"]
        yield Problem(
            "train.max_epochs", f"={epochs} with train.max_steps={steps}: one or the other; write null for one of them"
        )


def _precision(view: View) -> Iterator[Problem]:
    if (view["train.precision"], view["trainer.device"]) == ("16-mixed", "cpu"):
        yield Problem("train.precision", "=16-mixed with trainer.device=cpu: needs a GPU; write 32-true or bf16-mixed")


def _lengths(view: View) -> Iterator[Problem]:
    for key in ("batch_tokens", "bucket_window"):
        value = view[f"train.{key}"]
        if value is not None and view.task.declares("modality") == "image_question":
            yield Problem(
                f"train.{key}", f"={value}: the pictures of task {view['task.name']} have no lengths; write null"
            )


def _betas(view: View) -> Iterator[Problem]:
    betas = view["optim.betas"]
    if len(betas) != 2:
        yield Problem("optim.betas", f"={show(betas)}: expected two numbers >= 0 and < 1, such as [0.9,0.999]")


def _groups_not_empty(view: View) -> Iterator[Problem]:
    for slot in [slot for slot in view.needs if slot != "cross"]:
        if view[f"model.{slot}"] == []:
            yield Problem(f"model.{slot}", "=[]: expected at least one group of layers")


def _paths(view: View) -> Iterator[Problem]:
    for name in FOLDERS:
        if not view[f"paths.{name}"].strip():
            yield Problem(
                f"paths.{name}",
                f"=: empty; expected a folder, such as {'data' if name == 'data' else 'experiments/runs'}",
            )
    task = [f"task.{option}" for option in PATH_OPTIONS if view["task"].get(option) is not None]
    for key in (*(f"paths.{name}" for name in FOLDERS), "from_run", *task):
        if view[key] is not None and (problem := path_problem(key, expanded(view[key]))):
            yield problem


NETWORK_RULES: list[Callable[[View], Iterator[Problem]]] = [
    _kind_exists, _positions_exist, _heads, _inner_width, _slots_filled, _groups_not_empty, _shares,
    _directions, _options_fit, _positions_possible, _ortho, _normalization, _unread, _one_stack, _steps,
    _precision, _lengths, _betas, _paths, _own_mechanism,
]  # fmt: skip
