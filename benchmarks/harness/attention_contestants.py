"""Contestants of `benchmarks.attention`: every shipped mechanism once, and the baselines."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.attention.base import Attention
from attnlab.config.job_config import compose_config
from attnlab.config.schema import Config
from attnlab.config.validation.type_check import build
from attnlab.nn.network_parts import make_attention
from benchmarks.harness.attention_baselines import FLA, Form, baselines


@dataclass(frozen=True)
class Shape:
    """Sizes of the comparison (B samples, H heads of width D), and its device."""

    batch: int
    heads: int
    width: int
    device: torch.device


@dataclass(frozen=True)
class Contestant:
    """One form of attention in one mode.

    inputs: fresh leaf tensors for a number of positions, laid out in memory as the network's projections make them.
    form: the output of those.
    """

    name: str
    inputs: Callable[[int], Sequence[Tensor]]
    form: Callable[[Sequence[Tensor]], Tensor]

    def forward(self, tensors: Sequence[Tensor]) -> Callable[[], object]:
        """A call without gradients."""

        def run() -> Tensor:
            with torch.no_grad():
                return self.form(tensors)

        return run

    def forward_backward(self, tensors: Sequence[Tensor]) -> Callable[[], object]:
        """A call and the gradients with respect to its inputs, from a gradient laid out as the output projection's."""
        with torch.no_grad():
            batch, heads, length, width = self.form(tensors).shape
        # Joined heads are after positions in memory.
        upstream = torch.randn(batch, length, heads, width, device=tensors[0].device).transpose(1, 2)

        def run() -> None:
            for x in tensors:
                x.grad = None
            self.form(tensors).backward(upstream)

        return run


def contestants(models: Sequence[str], causal: bool, shape: Shape, longest: int) -> list[Contestant]:
    """Returns the baselines, then the mechanisms of the models that have this form."""
    chosen = [_baseline(name, form, causal, shape) for name, form in baselines(causal, shape.device).items()]
    for name, mechanism in mechanisms(models, causal, shape, longest).items():
        if mechanism.supports_causal if causal else mechanism.supports_bidirectional:
            chosen.append(_mechanism(f"attnlab {name}", mechanism, causal, shape))
    return chosen


def mechanisms(models: Sequence[str], causal: bool, shape: Shape, longest: int) -> dict[str, Attention]:
    """Returns every attention of the encoders (causal: decoders) of these models once, named by its first model."""
    collected: dict[str, tuple[str, Attention]] = {}
    for name in models:
        # Without the compatibility rules: they refuse mechanisms that lack a form of the task.
        config = build(Config, compose_config([f"model={name}"]))
        model = dataclasses.replace(config.model, ortho=dataclasses.replace(config.model.ortho, weight=0.0))
        backbone = dataclasses.replace(
            config.backbone,
            d_model=shape.heads * shape.width,
            n_heads=shape.heads,
            attention_dropout=0.0,
            positions=model.positions or config.backbone.positions,
        )
        groups = model.decoder if causal else model.encoder
        for number, group in enumerate(groups, start=1):
            relative = backbone.positions == "relative"
            label = name if len(groups) == 1 else f"{name}, group {number}"
            forms = {label: group.attention}
            if FLA and shape.device.type == "cuda" and "fast" in group.attention:
                forms[f"{label}, fast"] = group.attention | {"fast": True}
            for form, attention in forms.items():
                same = json.dumps([attention, dataclasses.asdict(model.normalization), relative])
                if same not in collected:
                    mechanism = make_attention(attention, "encoder", backbone, model, longest)
                    collected[same] = (form, mechanism.to(shape.device).eval())
    return dict(collected.values())


def _baseline(name: str, form: Form, causal: bool, shape: Shape) -> Contestant:
    def inputs(length: int) -> list[Tensor]:
        size = (shape.batch, shape.heads, length, shape.width)
        return [torch.randn(size, device=shape.device, requires_grad=True) for _ in range(3)]

    return Contestant(name, inputs, lambda tensors: form(*tensors, causal))


def _mechanism(name: str, mechanism: Attention, causal: bool, shape: Shape) -> Contestant:
    """`attend` from projected queries, keys and values."""

    def inputs(length: int) -> list[Tensor]:
        x = torch.randn(shape.batch, length, shape.heads * shape.width, device=shape.device)
        with torch.no_grad():
            tensors = mechanism.queries(x), *mechanism.keys_values(x)
        return [t.requires_grad_() for t in tensors]

    return Contestant(name, inputs, lambda tensors: mechanism.attend(*tensors, None, causal))
