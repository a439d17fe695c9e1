"""cosFormer: switches, published outputs, and the effect of the length M."""

import re
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import pytest
import torch
from support.golden_outputs import assert_golden, golden, with_weights
from support.model_cases import SPECS, apply, backbone_of, config_of, network_of
from support.reference_comparison import compare_with_reference
from support.tensors import masks, shaken

from attnlab.attention.cosformer import CosFormer
from attnlab.config.job_config import check_config, compose_config
from attnlab.config.schema import Normalization, Paths
from attnlab.data.examples import SequencePairs
from attnlab.run.build_runtime import prepare
from attnlab.tasks.base import Prepared
from attnlab.tasks.kinds.base import build_network

MODES = ("bidirectional", "causal", "cross")


def make(max_length: int | None = 20, **options) -> CosFormer:
    torch.manual_seed(0)
    return shaken(CosFormer(8, 2, max_length=max_length, **options).double())


@pytest.mark.parametrize("form", [{"length_from": "config"}, {"length_from": "batch", "max_length": None}])
@pytest.mark.parametrize("mode", MODES)
def test_equals_the_published_code(mode: str, form: dict[str, str]) -> None:
    """OpenNLPLab/cosFormer: relu, positions from 1, denominator clamped at 1e-6.

    It takes M from the batch, which `length_from=batch` repeats; `length_from=config` is given the same number.
    """
    record = golden(f"cosformer_{mode}")
    options = {"max_length": int(record["max_length"])} | form
    attention = with_weights(CosFormer(record["x"].shape[2], int(record["heads"]), **options), record)
    out, _ = apply(attention, mode, record["x"], record["memory"], None)
    assert_golden(out, record)


@pytest.mark.parametrize(
    "normalization",
    [
        Normalization(kind=kind, placement=placement, denominator=denominator)
        for kind, placement, denominator in product(
            ("none", "l1", "rms"), ("after_feature_map", "before_feature_map"), (True, False)
        )
    ],
    ids=lambda n: f"{n.kind}-{n.placement}-{n.denominator}",
)
def test_every_normalization_equals_the_reference(normalization: Normalization) -> None:
    for mode in MODES:
        compare_with_reference(make(normalization=normalization, chunk_size=4), mode, 9, (9, 4, 1, 0))


@pytest.mark.parametrize("options", [{"bias": False, "eps": 0.5}, {"length_from": "batch"}, {"orthogonality": True}])
def test_switches_equal_the_reference(options: dict) -> None:
    for mode in MODES:
        compare_with_reference(make(**options), mode, 6)
        compare_with_reference(make(**options), mode, 7, (7, 3, 1, 0))


@pytest.mark.parametrize("mode", MODES)
def test_weights_are_the_relu_products_times_the_cosine(mode: str) -> None:
    """Distances from 0 to M - 1, in a single head of width 1 whose features are all 1."""
    length, attention = 12, CosFormer(1, 1, max_length=12).double()
    ones = torch.ones(1, 1, length, 1, dtype=torch.float64)
    scores: list[torch.Tensor] = []
    attention.weights(ones, ones, None, mode == "causal", lambda result: scores.append(result) or result)
    distances = torch.arange(length)[:, None] - torch.arange(length)[None]
    torch.testing.assert_close(scores[0][0, 0], (torch.pi / 2 * distances.double() / length).cos(), rtol=0, atol=1e-14)
    assert (scores[0] > 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_a_query_that_meets_no_key_gives_zero(mode: str) -> None:
    """Keys whose features are all 0: the sum is 0, and so is what it divides; gradients are finite."""
    q, k, v = (torch.randn(2, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    out = make().attend(q, -k.abs(), v, None, mode == "causal")
    assert (out == 0).all()
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(out.sum(), (q, k, v)))


def test_its_state_does_not_grow() -> None:
    assert make().state_size(1) == make().state_size(19) == 2 * (2 * 4) * 5
    assert make(normalization=Normalization(denominator=False)).state_size(7) == 2 * (2 * 4) * 4


def test_the_published_length_couples_a_sample_to_its_padding() -> None:
    """Why `length_from=config` is the default: with M from the batch more padding changes the output."""
    x = torch.randn(1, 5, 8, dtype=torch.float64)
    longer = torch.cat((x, torch.zeros(1, 4, 8, dtype=torch.float64)), dim=1)
    for length_from, same in (("config", True), ("batch", False)):
        attention = make(length_from=length_from)
        out, _ = attention(x, None, masks([5], 5))
        padded, _ = attention(longer, None, masks([5], 9))
        assert torch.allclose(padded[:, :5], out, rtol=1e-12, atol=1e-12) == same


@pytest.mark.parametrize("mode", MODES)
def test_real_positions_beyond_the_length_are_refused_and_padding_is_not(mode: str) -> None:
    attention, longer, shorter = make(6), torch.randn(2, 9, 8).double(), torch.randn(2, 4, 8).double()
    message = re.escape("a sequence of 9 positions with max_length=6")
    with pytest.raises(ValueError, match=message):
        apply(attention, mode, longer, longer, None)
    with pytest.raises(ValueError, match=message):
        apply(attention, mode, longer, longer, masks([6, 7], 9))
    out, _ = apply(attention, mode, longer, longer, masks([6, 3], 9))
    assert out.isfinite().all()
    if mode == "cross":
        with pytest.raises(ValueError, match=message):
            attention(longer, shorter, masks([4, 2], 4))
        with pytest.raises(ValueError, match=message):
            attention(shorter, longer, masks([9, 2], 9))
        attention(shorter, longer, masks([6, 2], 9))


def test_steps_beyond_the_length_are_refused() -> None:
    attention, x = make(3), torch.randn(1, 1, 8).double()
    for memory in (None, torch.randn(1, 2, 8).double()):
        state = attention.init_state(1, memory)
        for _ in range(3):
            _, state = attention.step(x, state)
        with pytest.raises(ValueError, match="a sequence of 4 positions with max_length=3"):
            attention.step(x, state)
    with pytest.raises(ValueError, match="a sequence of 4 positions with max_length=3"):
        attention.init_state(1, torch.randn(1, 4, 8).double())
    attention.init_state(1, torch.randn(1, 4, 8).double(), masks([3], 4))


@pytest.mark.parametrize("mode", MODES)
def test_beyond_the_length_of_training_positions_count_as_the_last(mode: str) -> None:
    """`length_from=train`: no weight is negative, nothing is refused, and M itself is as with `length_from=config`."""
    attention = make(None, train_length=6, length_from="train")
    compare_with_reference(attention, mode, 9, (9, 7, 6, 2))
    x = torch.randn(2, 6, 8, dtype=torch.float64)
    assert torch.equal(apply(attention, mode, x, x, None)[0], apply(make(6), mode, x, x, None)[0])
    ones = torch.ones(1, 2, 9, 4, dtype=torch.float64)
    assert (attention.weights(ones, ones, None, mode == "causal") >= 0).all()
    if mode == "causal":
        state, longer, outs = attention.init_state(2), torch.randn(2, 9, 8, dtype=torch.float64), []
        for i in range(9):
            out, state = attention.step(longer[:, i : i + 1], state)
            outs.append(out)
        torch.testing.assert_close(torch.cat(outs, 1), attention(longer, causal=True)[0], rtol=1e-10, atol=1e-12)


def test_networks_are_told_the_length_of_training() -> None:
    """From the training subset alone, with the tokens that the network adds; fixed numbers of patches are all of it."""
    subsets = {
        "train": SequencePairs.of([[1, 2, 3], [1]], [[1] * 5, [1]], 0),
        "test": SequencePairs.of([[1] * 50], [[1] * 70], 0),
    }
    task = SimpleNamespace(prepare=lambda folders: Prepared(spec=SPECS["scan"], subsets=subsets))
    spec = prepare(task, Paths(data=".", cache=".", runs=".")).spec
    assert spec == replace(SPECS["scan"], train_length=5)
    model, train = config_of("cosformer").model, {"length_from": "train"}
    groups = [replace(group, attention=group.attention | train) for group in model.encoder]
    model = replace(model, encoder=groups, decoder=groups, cross=model.cross | train)
    listops = replace(SPECS["lra_listops"], train_length=7)
    pictures = SPECS["sort_of_clevr"]
    for inputs, pooling, expected in ((spec, "mean", 5), (listops, "class_token", 8), (pictures, "mean", 5)):
        backbone = backbone_of("cosformer", "scan", pooling=pooling)
        collected = [m for m in build_network(backbone, model, inputs).modules() if isinstance(m, CosFormer)]
        assert collected and {attention.max_length for attention in collected} == {expected}
    with pytest.raises(ValueError, match="train_length is missing"):
        build_network(backbone, model, SPECS["scan"])


def test_a_length_is_needed() -> None:
    with pytest.raises(ValueError, match="max_length is missing"):
        CosFormer(8, 2)


def test_the_published_length_has_no_step_form() -> None:
    with pytest.raises(NotImplementedError, match="use length_from=config"):
        make(length_from="batch").init_state(1)
    overrides = ["model.mechanism.length_from=batch"]
    assert not check_config(compose_config(["task=sort_of_clevr", "model=cosformer", *overrides]))
    messages = check_config(compose_config(["task=scan", "model=cosformer", *overrides]))
    assert len(messages) == 2
    assert all("has no step form with length_from=batch" in problem for problem in messages)


@pytest.mark.parametrize(("task", "length"), [("scan", 100), ("sort_of_clevr", 5)])
def test_networks_take_the_longest_sequence_of_the_task(task: str, length: int) -> None:
    """100 tokens by tests/support/model_cases.py; the class token and four patches of a 30 x 30 image."""
    collected = [m for m in network_of("cosformer", task).modules() if isinstance(m, CosFormer)]
    assert collected and {attention.max_length for attention in collected} == {length}


def test_a_node_can_set_the_length() -> None:
    model = config_of("cosformer").model
    layer = network_of(replace(model, cross=model.cross | {"max_length": 123}), "scan").decoder.layers[0]
    assert (layer.cross.max_length, layer.attention.max_length) == (123, 100)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_positions_apart(dtype: torch.dtype) -> None:
    """Tables and sums in float32: positions above 256 are no bfloat16 numbers."""
    q, k, v = (torch.randn(1, 2, 1000, 4).to(dtype) for _ in range(3))
    for causal in (False, True):
        expected = make(1000).attend(q.double(), k.double(), v.double(), None, causal)
        actual = make(1000).to(dtype).attend(q, k, v, None, causal)
        assert actual.dtype == dtype
        torch.testing.assert_close(actual.double(), expected, rtol=8e-3, atol=1e-4)
