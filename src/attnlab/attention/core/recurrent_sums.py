"""Sums of keys and values that decay and that keys overwrite: in chunks with exact gradients, and position by position.

    S_t = D_t S_{t-1} + k_t u_t^T,   out_t = q_t S_t,   D_t = diag(d_t),  0 <= d_t <= 1

u_t is v_t, or with the delta rule the error of the value that the state holds for this key, times a write strength:

    u_t = b_t (v_t - k_t D_t S_{t-1})

All published recurrences of attention/recurrent are cases of it. A chunk of L positions needs the products of queries
and keys with the decay between them, P(q, k)_ij = sum_c q_ic k_jc d_(j+1)c ... d_ic, lower triangular. With S before
the chunk, and products of decays from its start (s_i) and to its end (e_j):

    u = (I + diag(b) P(k, k) without its diagonal)^-1 diag(b) (v - (k s) S)
    out = (q s) S + P(q, k) u,   S after = diag(s_L) S + (k e)^T u

The triangular system is the WY form of Yang et al. 2024 (DeltaNet, section 3). P is made from blocks: the later half of
a block reads the earlier half through the products of decays up to the middle and from it. So no decay is ever divided
by another, and no sum of logarithms is subtracted: decays that underflow give the zeros that they are.
Cost O(N L (K + C)) for keys of width K and values of width C, and O(N K C / L) for the states.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from attnlab.attention.core.linear_sums import chunks, key_value_sum

CHUNK = 64
"""positions of a chunk, a power of two; on a CPU 32 is up to 20 % faster for heads of width 32, and slower for 64"""


class Recurrent(NamedTuple):
    """What a recurrence reads at every position.

    log_decay: log d, for every column of the keys or the same for all; of one position: the same at all; None = 0.
    write: b of the delta rule; None = no delta rule.
    """

    q: Float[Tensor, "B H N K"]
    k: Float[Tensor, "B H N K"]
    v: Float[Tensor, "B H N C"]
    log_decay: Float[Tensor, "#B H #N #K"] | None = None
    write: Float[Tensor, "B H N 1"] | None = None

    def reversed(self) -> "Recurrent":
        """The positions in the other order."""
        q, k, v, log_decay, write = (None if x is None else x.flip(2) for x in self)
        return Recurrent(q, k, v, log_decay, write)  # type: ignore[arg-type]


def recurrent_sums(read: Recurrent) -> tuple[Float[Tensor, "B H N C"], Float[Tensor, "B H K C"]]:
    """Outputs of all positions, and the state after the last one."""
    length = read.q.shape[2]
    size = min(CHUNK, 1 << (length - 1).bit_length())
    q, k, v = (chunks(x, size) for x in (read.q, read.k, read.v))
    decay = None if read.log_decay is None else _decay_chunks(read.log_decay, length, size)
    if read.write is None:
        (scores,), starts, ends, total = _products(q, k, decay, False)
        states, last = _states(total, key_value_sum(k * ends, v))
        out = (q * starts) @ states + scores @ v
    else:
        (scores, mixing), starts, ends, total = _products(q, k, decay, True)
        write = chunks(read.write, size)
        # The diagonal and what is above it are not read.
        targets = torch.cat((v, k * starts), dim=-1) * write
        solved = torch.linalg.solve_triangular(mixing * write, targets, upper=False, unitriangular=True)
        values, erased = solved.split((v.shape[-1], k.shape[-1]), dim=-1)
        at_end = k * ends
        kept = torch.diag_embed(total.expand_as(k[..., :1, :])[..., 0, :]) - key_value_sum(at_end, erased)
        states, last = _states(kept, key_value_sum(at_end, values))
        out = (q * starts) @ states + scores @ (values - erased @ states)
    return out.flatten(2, 3)[:, :, :length], last


def recurrent_step(
    state: Float[Tensor, "B H K C"], read: Recurrent
) -> tuple[Float[Tensor, "B H 1 C"], Float[Tensor, "B H K C"]]:
    """Output of one position, and the state after it."""
    k, v = read.k, read.v
    if read.log_decay is not None:
        state = state * read.log_decay.exp().transpose(-1, -2)
    if read.write is not None:
        v = read.write * (v - k @ state)
    state = torch.addcmul(state, k.transpose(-1, -2), v)
    return read.q @ state, state


def _decay_chunks(log_decay: Tensor, length: int, size: int) -> Float[Tensor, "#B H T L #K"]:
    """Padding does not decay, so that the last state is the state after the last position."""
    if log_decay.shape[2] == 1:
        log_decay = log_decay.expand(-1, -1, length if length % size else size, -1)
    return chunks(log_decay, size)


def _products(
    q: Tensor, k: Tensor, log_decay: Tensor | None, with_keys: bool
) -> tuple[Sequence[Tensor], Tensor, Tensor, Tensor]:
    """P(q, k), and P(k, k) where wanted; products of decays: from the start, to the end, and of the whole chunk."""
    if log_decay is not None and log_decay.shape[-1] > 1:
        *products, starts, ends, total = _DecayedProducts.apply(log_decay, q, k, with_keys)
        return products, starts, ends, total
    rows = torch.cat((q, k), dim=-2) if with_keys else q
    scores = (rows @ k.transpose(-1, -2)).split(k.shape[-2], dim=-2)
    if log_decay is None:
        no_decay = k.new_ones(1, 1, 1, 1, 1)
        return [scores[0].tril(), *scores[1:]], no_decay, no_decay, no_decay
    ones = (torch.ones_like(log_decay) for _ in range(2))
    decays, starts, ends, total = _DecayedProducts.apply(log_decay, *ones, False)
    return [each * decays for each in scores], starts, ends, total


class _DecayedProducts(torch.autograd.Function):
    """P(q, k) of chunks [..., L, K], and P(k, k) where wanted, from blocks of 1, 2, 4, ... L positions.

    With the products of decays from the start of the chunk (its own included), to its end (its own left out), and of
    the chunk. The gradient of a product of decays reaches their logarithms as a sum, so none is divided by a decay.
    """

    @staticmethod
    def forward(log_decay: Tensor, q: Tensor, k: Tensor, with_keys: bool) -> tuple[Tensor, ...]:
        rows = [q, k] if with_keys else [q]
        starts, ends = log_decay.exp(), torch.ones_like(log_decay)
        products = [torch.zeros(*k.shape[:-1], k.shape[-2], dtype=k.dtype, device=k.device) for _ in rows]
        for product, row in zip(products, rows, strict=True):
            product.diagonal(dim1=-2, dim2=-1).copy_((row * k).sum(-1))
        for size, start, end in _decays_of_blocks(starts, ends):
            between = _later(rows, start, size) @ (_halves(k, size)[0] * end).transpose(-1, -2)
            for product, block in zip(products, between.split(size, dim=-2), strict=True):
                _blocks(product, size).copy_(block)
        return *products, starts, ends, starts[..., -1:, :].clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, bool], output: tuple[Tensor, ...]) -> None:
        *tensors, ctx.with_keys = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        log_decay, q, k = ctx.saved_tensors
        rows = [q, k] if ctx.with_keys else [q]
        starts, ends = log_decay.exp(), torch.ones_like(log_decay)
        levels = [(size, start.clone(), end.clone()) for size, start, end in _decays_of_blocks(starts, ends)]
        # gradients of the logarithms of products of decays
        to_start, to_end, to_total = grads[-3] * starts, grads[-2] * ends, grads[-1] * starts[..., -1:, :]
        diagonals = [grad.diagonal(dim1=-2, dim2=-1)[..., None] for grad in grads[:-3]]
        to_k = torch.zeros_like(k)
        for diagonal, row in zip(diagonals, rows, strict=True):
            to_k.addcmul_(diagonal, row)
        to_rows = [diagonal * k for diagonal in diagonals]
        for size, start, end in reversed(levels):
            blocks = torch.cat([_blocks(grad, size) for grad in grads[:-3]], dim=-2)
            late, early = _later(rows, start, size), _halves(k, size)[0] * end
            to_late, to_early = blocks @ early, (blocks.transpose(-1, -2) @ late).mul_(end)
            (_, start_2), (end_1, _) = _halves(to_start, size), _halves(to_end, size)
            to_total = torch.stack((to_total + start_2.sum(-2), to_total + end_1.sum(-2)), dim=-2).flatten(-3, -2)
            for row, to_row, part in zip(rows, to_rows, to_late.split(size, dim=-2), strict=True):
                part = part.mul_(start)
                _halves(to_row, size)[1].add_(part)
                start_2.addcmul_(part, _halves(row, size)[1])
            _halves(to_k, size)[0].add_(to_early)
            end_1.addcmul_(to_early, _halves(k, size)[0])
        return to_start + to_total, to_rows[0], sum(to_rows[1:], to_k), None


def _halves(x: Float[Tensor, "*rest L K"], size: int) -> tuple[Tensor, ...]:
    """The earlier and the later `size` positions of every block of 2 `size`: [..., L / 2 size, size, K], as views."""
    return x.unflatten(-2, (-1, 2, size)).unbind(-3)


def _later(rows: Sequence[Tensor], start: Tensor, size: int) -> Tensor:
    """The later halves of the blocks, times the decays from their middle; kinds of rows one under another."""
    return torch.cat([_halves(row, size)[1] * start for row in rows], dim=-2)


def _blocks(x: Float[Tensor, "*rest L L"], size: int) -> Float[Tensor, "*rest P S S"]:
    """Later rows and earlier columns of the blocks of 2 `size` on the diagonal, as a view."""
    tiles = x.unflatten(-2, (-1, 2, size)).unflatten(-1, (-1, 2, size))[..., 1, :, :, 0, :]
    return tiles.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)


def _decays_of_blocks(starts: Tensor, ends: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
    """For every size of half a block: the size, and views of the products of decays from the middle of the blocks to
    their later positions, and from their earlier ones to the middle.

    Args:
        starts, ends: the decays and ones [..., L, K]; changed in place to products from the start of the chunk, and to
            its end.
    """
    size = 1
    while size < starts.shape[-2]:
        (start_1, start_2), (end_1, _) = _halves(starts, size), _halves(ends, size)
        yield size, start_2, end_1
        first, second = start_1[..., -1:, :], start_2[..., -1:, :].clone()
        for part, factor in ((start_2, first), (end_1, second)):
            part.mul_(factor).masked_fill_(part < torch.finfo(part.dtype).tiny ** 0.4, 0.0)
        size *= 2


def _states(kept: Tensor, added: Tensor) -> tuple[Tensor, Tensor]:
    """States before every chunk, and after the last."""
    states = _StateScan.apply(kept, added)
    return states[:, :, :-1], states[:, :, -1]


class _StateScan(torch.autograd.Function):
    """S_(c+1) = M_c S_c + A_c from S_0 = 0: all states [B, H, T + 1, K, C].

    M is a matrix [K, K] or, for decays alone, a row [1, K] that stands for a diagonal one.
    """

    @staticmethod
    def forward(kept: Tensor, added: Tensor) -> Tensor:
        batch, heads, count, width, columns = added.shape
        states = added.new_zeros(batch, heads, count + 1, width, columns)
        before = states.unbind(2)
        for c, (m, a) in enumerate(zip(_each(kept, count), added.unbind(2), strict=True)):
            if kept.shape[-2] == 1:
                before[c + 1].copy_(a).addcmul_(m.transpose(-1, -2), before[c])
            else:
                before[c + 1].copy_(a).add_(m @ before[c])
        return states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor]:
        kept, states = ctx.saved_tensors
        count = states.shape[2] - 1
        grad = grad.clone(memory_format=torch.contiguous_format)
        after = grad.unbind(2)
        for c, m in reversed(list(enumerate(_each(kept, count)))):
            if kept.shape[-2] == 1:
                after[c].addcmul_(m.transpose(-1, -2), after[c + 1])
            else:
                after[c].add_(m.transpose(-1, -2) @ after[c + 1])
        later, earlier = grad[:, :, 1:], states[:, :, :-1]
        if not ctx.needs_input_grad[0]:
            return None, later
        if kept.shape[-2] == 1:
            by_row = torch.linalg.vecdot(later, earlier)[..., None, :]
        else:
            by_row = later @ earlier.transpose(-1, -2)
        return by_row.sum_to_size(kept.shape), later


def _each(kept: Tensor, count: int) -> Sequence[Tensor]:
    return kept.expand(-1, -1, count, -1, -1).unbind(2)
