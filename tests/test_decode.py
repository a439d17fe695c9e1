"""Greedy decoding against a loop that runs the whole network anew for every token, and what counts as right."""

from dataclasses import dataclass

import pytest
import torch
from models import distinct_for, masks, network_of
from torch import Tensor, nn

from attnlab.attention.base import State
from attnlab.data.batch import SequenceBatch
from attnlab.learn import decode
from attnlab.learn.decode import greedy
from attnlab.learn.judge import sequences_right
from attnlab.nn.heads import DecodeState, EncoderDecoder

END = 1


def naive(network: EncoderDecoder, inputs: Tensor, mask: Tensor, limit: int, oracle: Tensor | None) -> list[list[int]]:
    """What each row writes before its end, every token of every row from a forward over all tokens before it."""
    read = torch.full((len(inputs), 1), END)
    for _ in range(limit):
        logits = network(inputs, mask, read, torch.ones_like(read).bool())[0][:, -1]
        if oracle is not None:
            logits[:, END] = -torch.inf
        read = torch.cat((read, logits.argmax(-1)[:, None]), dim=1)
    written = read[:, 1:].tolist()
    if oracle is not None:
        return [row[:length] for row, length in zip(written, oracle.tolist(), strict=True)]
    return [row[: row.index(END)] if END in row else row for row in written]


def check(network: EncoderDecoder, limit: int, oracle: list[int] | None, batch: int = 12) -> list[int]:
    """Greedy decoding of a padded batch equals the naive loop; the lengths."""
    inputs, mask = torch.randint(7, (batch, 5)), masks([1 + row % 5 for row in range(batch)], 5)
    wanted = None if oracle is None else torch.tensor(oracle)
    with torch.no_grad():
        found, expected = greedy(network, inputs, mask, limit, END, wanted), naive(network, inputs, mask, limit, wanted)
    assert found.lengths.tolist() == [len(row) for row in expected]
    assert found.tokens.tolist() == [row + [END] * (limit - len(row)) for row in expected]
    return found.lengths.tolist()


def lengths_over_seeds(model: str, *seeds: int) -> set[int]:
    """Checks networks whose rows end at many times; the lengths seen."""
    seen: set[int] = set()
    for seed in seeds:
        network = network_of(model, "scan", seed, tied_output=False, embedding="noscale")
        seen |= set(check(network, 12, None, batch=24))
    return seen


@pytest.mark.parametrize("model", distinct_for("scan"))
def test_greedy_equals_the_naive_loop(model: str) -> None:
    lengths_over_seeds(model, 2)


@pytest.mark.parametrize("model", ["linear", "vanilla"])
def test_rows_end_early_late_and_never(model: str) -> None:
    """Else the test above would not see finished rows leave the batch on the way."""
    seen = lengths_over_seeds(model, 0, 2, 3, 5)
    assert {0, 1, 12} <= seen
    assert len(seen) > 4


@pytest.mark.parametrize("end_bias", [-1e9, 1e9])
def test_rows_that_never_or_at_once_end(end_bias: float) -> None:
    network = network_of("linear", "scan", tied_output=False)
    with torch.no_grad():
        network.output.linear.bias[END] = end_bias
    assert set(check(network, 4, None, batch=3)) == {4 if end_bias < 0 else 0}


@pytest.mark.parametrize("model", ["linear", "vanilla"])
def test_oracle_lengths_end_each_row_where_they_say(model: str) -> None:
    oracle = [0, 1, 5, 8, 3, 11, 2, 8, 1, 1, 0, 4]
    network = network_of(model, "scan", tied_output=False)
    with torch.no_grad():
        network.output.linear.bias[END] = 5
    assert check(network, 8, oracle) == [min(length, 8) for length in oracle]


@pytest.mark.parametrize("model", ["linear", "vanilla"])
def test_rows_may_be_counted_now_and_then_only(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: rows that have ended, all of them even, go on for a while and leave nothing behind."""
    monkeypatch.setitem(decode.CHECK_EVERY, "cpu", 5)
    assert {0, 1, 12} <= lengths_over_seeds(model, 0, 3)
    network = network_of(model, "scan", tied_output=False)
    oracle = [0, 1, 5, 7, 3, 6, 2, 7, 1, 1, 0, 4]
    assert check(network, 9, oracle) == oracle


@dataclass(frozen=True)
class Rows(State):
    """Which script each row of the batch follows."""

    rows: Tensor


class Scripted(EncoderDecoder):
    """Prefers the tokens of a script; where the end is forbidden, those of a second one.

    The first input token of a row is the number of its script.
    """

    def __init__(self, scripts: list[list[int]], without_end: list[list[int]]) -> None:
        nn.Module.__init__(self)
        size = 20
        self.first, self.second = (
            torch.tensor([script + [END] * (size - len(script)) for script in table])
            for table in (scripts, without_end)
        )

    def start(self, inputs: Tensor, input_mask: Tensor) -> DecodeState:
        return DecodeState(0, [(Rows(0, inputs[:, 0]), None)])

    def step(self, tokens: Tensor, state: DecodeState) -> tuple[Tensor, DecodeState]:
        rows = state.layers[0][0].rows
        logits = torch.zeros(len(rows), 9)
        logits[torch.arange(len(rows)), self.second[rows, state.position]] = 1
        logits[torch.arange(len(rows)), self.first[rows, state.position]] = 2
        return logits, DecodeState(state.position + 1, state.layers)


CASES = {  # target without its end, what is written, what is written where the end is forbidden: right, right by oracle
    "exact": ([2, 3, 4], [2, 3, 4], [5] * 9, True, True),
    "exact and empty": ([], [], [5] * 9, True, True),
    "early end, goes on right": ([2, 3, 4], [2], [9, 3, 4], False, True),
    "early end, goes on wrong": ([2, 3, 4], [2], [9, 3, 5], False, False),
    "late end": ([2, 3, 4], [2, 3, 4, 4], [5] * 9, False, True),
    "no end": ([2, 3, 4], [2, 3, 4, 4, 4, 4, 4, 4, 4, 4], [5] * 9, False, True),
    "something where nothing is wanted": ([], [4], [5] * 9, False, True),
    "wrong token": ([2, 3, 4], [2, 5, 4], [5] * 9, False, False),
    "wrong token and late end": ([2, 3, 4], [2, 3, 5, 4], [5] * 9, False, False),
    "as long as the limit": ([2] * 6, [2] * 6, [5] * 9, False, True),
    "longer than the limit": ([2] * 7, [2] * 9, [5] * 9, False, False),
}


def test_what_counts_as_right() -> None:
    """All cases as one batch and each alone, with a limit of 6 tokens, the end included."""
    targets, scripts, without_end, right, oracle = (list(column) for column in zip(*CASES.values(), strict=True))
    without_end = [[min(token, 8) for token in script] for script in without_end]
    network, size = Scripted(scripts, without_end), max(map(len, targets)) + 1

    def judge(rows: list[int]) -> tuple[list[bool], list[bool]]:
        batch = SequenceBatch(
            index=torch.tensor(rows),
            inputs=torch.tensor([[row, 0] for row in rows]),
            input_lengths=torch.full((len(rows),), 2),
            targets=torch.tensor([targets[row] + [END] + [0] * (size - 1 - len(targets[row])) for row in rows]),
            target_lengths=torch.tensor([len(targets[row]) + 1 for row in rows]),
        )
        found = sequences_right(network, batch, limit=6, end_id=END)
        return found["sequence_accuracy"].tolist(), found["sequence_accuracy_oracle_end"].tolist()

    assert judge(list(range(len(CASES)))) == (right, oracle)
    for row, name in enumerate(CASES):
        assert judge([row]) == ([right[row]], [oracle[row]]), name
