"""Attention by length: every shipped mechanism against fused softmax and naive forms, forward and backward, in turns.

The mechanisms are those of `conf/model/*.yaml`, each once (models that share one are named by the first). Timed is
`attend`: from projected queries, keys and values, feature map and normalisation included, to the heads' outputs; a
mechanism with a `forward` of its own is timed whole, its projections included, and marked so. About 4,096 positions
altogether at every length (64 sequences of 64, one of 4,096), 4 heads of width 32, no padding, no dropout (with dropout
torch's softmax is not fused on the CPU), float32.

    python -m benchmarks.attention --lengths 512,4096 --models linear,vanilla
"""

import dataclasses
import json
from collections.abc import Callable

import torch
from torch import Tensor, nn

from attnlab.attention.base import Attention
from attnlab.config.check import checked
from attnlab.config.compose import compose_config, group_choices
from attnlab.nn.build import make_attention
from benchmarks.naive import LINEAR, SOFTMAX, Form
from benchmarks.tables import show
from benchmarks.timing import Timings, begin, interleaved, parser

HEADS, WIDTH, POSITIONS = 4, 32, 4096
BASELINE = next(iter(SOFTMAX))
MODES = {False: "bidirectional", True: "causal"}


def mechanisms(models: list[str]) -> dict[str, Attention]:
    """Every attention that encoders of these models use, once."""
    found: dict[str, tuple[str, Attention]] = {}
    for name in models:
        config = checked(compose_config([f"model={name}"]))
        backbone = dataclasses.replace(config.backbone, d_model=HEADS * WIDTH, n_heads=HEADS, attention_dropout=0.0)
        backbone = dataclasses.replace(backbone, positions=config.model.positions or backbone.positions)
        model = dataclasses.replace(config.model, ortho=dataclasses.replace(config.model.ortho, weight=0.0))
        for place, group in enumerate(model.encoder, start=1):
            same = json.dumps([group.attention, dataclasses.asdict(model.normalization), backbone.positions])
            label = name if len(model.encoder) == 1 else f"{name}, group {place}"
            if same not in found:
                found[same] = (label, make_attention(group.attention, "encoder", backbone, model))
    return dict(found.values())


def attend_of(mechanism: Attention) -> Form:
    return lambda q, k, v, causal: mechanism.attend(q, k, v, None, causal)


def whole_of(mechanism: nn.Module) -> Form:
    """A mechanism that has no separate `attend`; what it reads is as wide as all heads together."""
    return lambda q, k, v, causal: mechanism(q.transpose(1, 2).flatten(2), None, None, causal)[0]


def contestants(models: list[str], causal: bool) -> dict[str, Form]:
    """Yardsticks first, the baseline before all."""
    chosen: dict[str, Form] = {**SOFTMAX, **LINEAR[causal]}
    for name, mechanism in mechanisms(models).items():
        if not (mechanism.supports_causal if causal else mechanism.supports_bidirectional):
            continue
        if type(mechanism).forward is Attention.forward:
            chosen[f"attnlab {name}"] = attend_of(mechanism)
        else:
            chosen[f"attnlab {name} (with projections)"] = whole_of(mechanism)
    return chosen


def check_equal(forms: dict[str, Form], causal: bool) -> None:
    """Yardsticks compute what they stand for: otherwise a ratio would mean nothing."""
    q, k, v = (torch.randn(2, HEADS, 64, WIDTH) for _ in range(3))
    for kind, model in (("softmax", "attnlab vanilla"), ("linear", "attnlab linear")):
        for name, form in forms.items():
            if name.startswith(f"{kind},") and model in forms:
                torch.testing.assert_close(form(q, k, v, causal), forms[model](q, k, v, causal), rtol=1e-3, atol=1e-4)


def differentiated(form: Form, tensors: list[Tensor], causal: bool) -> Callable[[], None]:
    """Forward and backward with respect to queries, keys and values."""

    def run() -> None:
        for x in tensors:
            x.grad = None
        form(*tensors, causal).sum().backward()

    return run


def measure(forms: dict[str, Form], length: int, causal: bool, seconds: float) -> Timings:
    shape = (max(1, POSITIONS // length), HEADS, length, WIDTH)
    tensors = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    runs = {name: differentiated(form, tensors, causal) for name, form in forms.items()}
    return interleaved(runs, seconds, f"{MODES[causal]}, N = {length}", least=3)


def main() -> None:
    shipped = group_choices()["model"]
    options = parser(__doc__, seconds=20)
    options.add_argument("--lengths", default="64,128,256,512,1024,2048,4096", help="default: %(default)s")
    options.add_argument("--models", default=",".join(shipped), help="default: every model of conf/model")
    given = options.parse_args()
    place, lengths = begin(given.threads), [int(n) for n in given.lengths.split(",")]
    torch.manual_seed(0)
    for causal, mode in MODES.items():
        forms = contestants(given.models.split(","), causal)
        check_equal(forms, causal)
        times = {length: measure(forms, length, causal, given.seconds) for length in lengths}
        rows = [{"form": name} | {f"N={n}": 1000 * t.median(name) for n, t in times.items()} for name in forms]
        show(f"attention_{mode}_ms", f"Attention, {mode}, forward and backward: ms", rows, place)
        rows = [{"form": name} | {f"N={n}": t.ratio(BASELINE, name) for n, t in times.items()} for name in forms]
        show(f"attention_{mode}_speed", f"Attention, {mode}: how many times as fast as fused softmax", rows, place)


if __name__ == "__main__":
    main()
