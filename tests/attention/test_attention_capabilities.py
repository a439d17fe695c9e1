"""Claims of attention classes (`supports_*`): a class claims only what it implements."""

import importlib
import inspect
import json
from pathlib import Path

import pytest
import torch
from support.small_runs import run_job
from support.tiny_data import raw_of

from attnlab.attention.base import Attention
from attnlab.config.job_config import check_config
from attnlab.config.run_identity import run_folder
from attnlab.config.shipped_files import CONF
from attnlab.config.targets import NEEDED_ARGUMENTS, constructor_arguments, signature_of

ROOM = CONF.parent / "src/attnlab/attention"
FILES = [file for folder in (ROOM, ROOM / "recurrent") for file in sorted(folder.glob("[!_]*.py"))]
MODULES = [
    importlib.import_module(".".join(("attnlab.attention", *file.relative_to(ROOM).with_suffix("").parts)))
    for file in FILES
]
CLASSES = {
    kind.__name__: kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Attention) and kind.__module__ == module.__name__
}
MECHANISMS = {name: kind for name, kind in CLASSES.items() if not inspect.isabstract(kind)}
ATTEND = """
import torch
from attnlab.attention.base import Attention
from attnlab.attention.linear import LinearAttention
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.attention.core.softmax_core import fused_softmax


class Minimal(Attention):
    def attend(self, q, k, v, mask, causal):
        return fused_softmax(q, k, v, mask, causal)


class Boastful(Minimal):
    supports_step = True


class Half(LinearAttention):
    def attend(self, q, k, v, mask, causal):
        return super().attend(q, k, v, mask, causal) / 2


class Whole(Half):
    def step(self, x, state):
        raise NotImplementedError


class Softmax(SoftmaxAttention):
    def attend(self, q, k, v, mask, causal):
        return super().attend(q, k, v, mask, causal) / 2


class Deaf(Minimal):
    supports_position_scores = True

    def __init__(self, d_model: int, n_heads: int, *, bias: bool = True, initialization: str = "torch") -> None:
        super().__init__(d_model, n_heads, bias=bias, initialization=initialization)
"""


@pytest.fixture
def minimal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a module with a class that gives `attend` and nothing else, and three that claim too much."""
    (tmp_path / "minimal_attention.py").write_text(ATTEND)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("ATTNLAB_PLUGINS", "minimal_attention")
    return "minimal_attention"


def attention_of(kind: type[Attention]) -> Attention:
    """At tiny sizes."""
    offers = {"bias": True, "initialization": "torch", "max_length": 32}
    accepted = constructor_arguments(kind)
    return kind(8, 2, **{name: value for name, value in offers.items() if name in accepted})


@pytest.mark.parametrize("name", CLASSES)
def test_step_is_claimed_where_it_is_given(name: str) -> None:
    kind = CLASSES[name]
    inputs = [getattr(kind, method) is not getattr(Attention, method) for method in ("init_state", "step")]
    assert inputs == [kind.supports_step] * 2
    assert not kind.supports_step or not kind.supports_causal or kind.state_size is not Attention.state_size


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_check_reads_what_python_would(name: str) -> None:
    """Of an attention with default options."""
    kind = CLASSES[name]
    attention, signature = attention_of(kind), signature_of({"_target_": f"{kind.__module__}.{name}"})
    for claim in (claim for claim in vars(Attention) if claim.startswith("supports_")):
        assert signature.can(claim) == getattr(attention, claim), claim
    for claim, argument in NEEDED_ARGUMENTS.items():
        assert not getattr(kind, claim) or argument in constructor_arguments(kind)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_form_works_where_it_is_claimed_and_is_refused_elsewhere(name: str) -> None:
    attention, x, memory = attention_of(MECHANISMS[name]), torch.randn(2, 6, 8), torch.randn(2, 5, 8)
    forms = {"bidirectional": (None, False), "causal": (None, True), "cross": (memory, False)}
    for form, (source, causal) in forms.items():
        if getattr(attention, f"supports_{form}"):
            assert attention(x, source, None, causal)[0].shape == x.shape
        else:
            with pytest.raises(NotImplementedError, match=form):
                attention(x, source, None, causal)
    if not attention.supports_step:
        with pytest.raises(NotImplementedError, match="step"):
            attention.init_state(2)


@pytest.mark.parametrize(
    ("task", "name", "more", "said"),
    [
        ("scan", "Minimal", (), "model.decoder.0.attention=Minimal: has no step form, which a task of kind"),
        ("scan", "Boastful", (), "has no step form (it declares supports_step and gives no step), which a task"),
        (
            "scan",
            "Half",
            (),
            "has no step form (it gives an attend of its own and inherits the step of another), which",
        ),
        ("sort_of_clevr", "Deaf", ("backbone.positions=relative",), "backbone.positions=relative: not possible with"),
        ("sort_of_clevr", "Deaf", ("model.ortho.weight=0.1",), "model.ortho.weight=0.1: Deaf (model vanilla) has no"),
    ],
)
def test_a_claim_without_what_it_needs_is_refused(
    minimal: str, task: str, name: str, more: tuple[str, ...], said: str, tiny_data: Path, tmp_path: Path
) -> None:
    attention = f"[{{share: 1.0, attention: {{_target_: {minimal}.{name}}}}}]"
    where = "model.ortho.where=[encoder]"
    raw = raw_of(tiny_data, tmp_path, task, "model=vanilla", f"model.encoder={attention}", where, *more)
    assert said in "\n".join(check_config(raw))


@pytest.mark.parametrize(("name", "can_step"), [("Half", False), ("Whole", True), ("Softmax", True)])
def test_an_attend_of_its_own_needs_a_step_of_its_own(minimal: str, name: str, can_step: bool) -> None:
    """But for softmax attention, whose step calls `attend`."""
    assert signature_of({"_target_": f"{minimal}.{name}"}).can("supports_step") == can_step


def test_attend_alone_trains_what_needs_no_step(
    minimal: str, tiny_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the very end: the size of a state that is not there once ended the run after its last step."""
    (tmp_path / "conf/model").mkdir(parents=True)
    text = f"defaults: [vanilla, _self_]\nname: minimal\nmechanism: {{_target_: {minimal}.Minimal}}\n"
    (tmp_path / "conf/model/minimal.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    raw = raw_of(tiny_data, tmp_path, "flip_flop", "model=minimal")
    assert check_config(raw) == []
    assert run_job(raw, quiet=True) == 0
    assert json.loads((run_folder(raw) / "result.json").read_text())["state_size"] == 0
