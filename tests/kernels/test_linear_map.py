"""Tests of linear maps: products by oneDNN, joined projections and their heads."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention.base import Attention
from attnlab.attention.core.projected_heads import heads_of, projected_heads
from attnlab.attention.softmax import SoftmaxAttention
from attnlab.kernels import linear_map
from attnlab.kernels.linear_map import LinearMap, joined, linear

needs_one_dnn = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")),
    reason="torch without oneDNN",
)


@pytest.fixture
def one_dnn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Products by oneDNN on any processor and of any size; one entry a product."""
    calls = []
    product = linear_map._product

    def counted(*inputs: Tensor | None) -> Tensor:
        calls.append(1)
        return product(*inputs)

    monkeypatch.setattr(linear_map, "FASTER_HERE", True)
    monkeypatch.setattr(linear_map, "FEWEST_PRODUCTS", 0)
    monkeypatch.setattr(linear_map, "_product", counted)
    return calls


def results(function: object, x: Tensor, weight: Tensor, bias: Tensor | None, grad: Tensor) -> list[Tensor]:
    """The result of a linear map and its gradients."""
    inputs = [None if item is None else item.detach().requires_grad_() for item in (x, weight, bias)]
    out = function(*inputs)
    out.backward(grad)
    return [out.detach(), *(item.grad for item in inputs if item is not None)]


@needs_one_dnn
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("shape", [(7, 5), (3, 7, 5), (2, 3, 7, 5)])
@pytest.mark.parametrize("width", [4, 9])
def test_products_and_gradients_are_those_of_torch(
    one_dnn: list[int], shape: tuple[int, ...], width: int, with_bias: bool
) -> None:
    x, weight, grad = torch.randn(shape), torch.randn(width, shape[-1]), torch.randn(*shape[:-1], width)
    bias = torch.randn(width) if with_bias else None
    # a gradient whose rows do not lie in order, as it comes from heads
    grad = grad.transpose(0, -1).contiguous().transpose(0, -1)
    torch.testing.assert_close(results(linear, x, weight, bias, grad), results(F.linear, x, weight, bias, grad))
    assert len(one_dnn) == 3


@needs_one_dnn
def test_frozen_weights_get_no_product(one_dnn: list[int]) -> None:
    layer, x = LinearMap(5, 4).requires_grad_(False), torch.randn(6, 5, requires_grad=True)
    layer(x).sum().backward()
    assert len(one_dnn) == 2
    torch.testing.assert_close(x.grad, layer.weight.sum(0).expand(6, 5))


@needs_one_dnn
@pytest.mark.parametrize("with_bias", [True, False])
def test_the_operator_of_compiled_steps_has_a_gradient(with_bias: bool) -> None:
    """As torch's own checks of an operator want it."""
    x, weight = (torch.randn(shape, requires_grad=True) for shape in ((3, 6, 5), (4, 5)))
    bias = torch.randn(4, requires_grad=True) if with_bias else None
    operator = torch.ops.attnlab.linear
    torch.library.opcheck(operator.default, (x, weight, bias))
    grad = torch.randn(3, 6, 4)
    inputs = x, weight, bias, grad
    torch.testing.assert_close(results(operator, *inputs), results(F.linear, *inputs))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_number_formats_are_left_to_torch(one_dnn: list[int], dtype: torch.dtype) -> None:
    x, weight = torch.randn(6, 5, dtype=dtype), torch.randn(4, 5, dtype=dtype)
    assert torch.equal(linear(x, weight), F.linear(x, weight))
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x.float(), weight.float()).dtype == torch.bfloat16
    assert not one_dnn


def test_joined_projections_equal_single_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_map, "FEWEST_POSITIONS", 0)
    maps, x = [LinearMap(6, width, bias=True).double() for width in (6, 6, 6)], torch.randn(2, 5, 6).double()
    together = joined(x, maps)
    assert together is not None
    torch.testing.assert_close(together, torch.cat([item(x) for item in maps], dim=-1))
    for heads, item in zip(projected_heads(x, maps, 3), maps, strict=True):
        torch.testing.assert_close(heads, item(x).unflatten(-1, (3, 2)).transpose(1, 2))
    assert joined(x, [*maps, LinearMap(6, 6, bias=False).double()]) is None
    assert joined(x, [*maps, LinearMap(6, 8).double()]) is None, "parts of different widths"
    maps[1].register_forward_hook(lambda *inputs: None)
    assert joined(x, maps) is None


def test_a_projection_whose_call_is_replaced_or_watched_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `forward` of the instance (as quantisation and adapters set it), and hooks of all modules (as profilers do)."""
    monkeypatch.setattr(linear_map, "FEWEST_POSITIONS", 0)
    maps, x = [LinearMap(4, 4), LinearMap(4, 4)], torch.ones(1, 3, 4)
    hooks = nn.modules.module
    for register in (
        hooks.register_module_forward_hook,
        hooks.register_module_forward_pre_hook,
        hooks.register_module_full_backward_hook,
        hooks.register_module_full_backward_pre_hook,
    ):
        handle = register(lambda *inputs: None)
        try:
            assert joined(x, maps) is None
        finally:
            handle.remove()
    assert joined(x, maps) is not None
    maps[1].forward = torch.zeros_like
    assert joined(x, maps) is None
    assert not projected_heads(x, maps, 2)[1].any()


def test_few_positions_are_projected_one_by_one() -> None:
    maps = [LinearMap(4, 4), LinearMap(4, 4)]
    assert joined(torch.randn(2, linear_map.FEWEST_POSITIONS // 2 - 1, 4), maps) is None
    assert joined(torch.randn(2, linear_map.FEWEST_POSITIONS // 2, 4), maps) is not None


def test_gradient_through_heads() -> None:
    x = torch.randn(2, 5, 24, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: heads_of(x, 4, 3), x)
    with torch.no_grad():
        for copied, view in zip(heads_of(x, 4, 3), x.chunk(3, -1), strict=True):
            assert torch.equal(copied, view.unflatten(-1, (4, 2)).transpose(1, 2)) and copied.is_contiguous()


def test_another_class_in_the_place_of_a_projection_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_map, "FEWEST_POSITIONS", 0)

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    attention: Attention = SoftmaxAttention(8, 2)
    plain = attention.queries(torch.ones(1, 3, 8))
    doubled = Doubled(8, 8)
    doubled.load_state_dict(attention.q_proj.state_dict())
    attention.q_proj = doubled
    x = torch.ones(1, 3, 8)
    torch.testing.assert_close(attention.queries_keys_values(x, x)[0], 2 * plain)
