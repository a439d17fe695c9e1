"""Greedy decoding against a loop that runs the whole network for every token; scores of decoded sequences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
import torch
from support.gpu import requires_gpu
from support.model_cases import SPECS, network_of, one_of_each_mechanism
from support.tensors import masks
from torch import Tensor, nn

from attnlab.attention.base import State, TooLong
from attnlab.data.batch import SequenceBatch
from attnlab.nn import greedy_decoding
from attnlab.nn.encoder_decoder import DecodeState, EncoderDecoder
from attnlab.nn.greedy_decoding import greedy
from attnlab.tasks.kinds.encoder_decoder import sequence_scores

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
        actual, expected = (
            greedy(network, inputs, mask, limit, END, wanted),
            naive(network, inputs, mask, limit, wanted),
        )
    assert actual.lengths.tolist() == [len(row) for row in expected]
    assert actual.tokens.tolist() == [row + [END] * (limit - len(row)) for row in expected]
    return actual.lengths.tolist()


def lengths_over_seeds(model: str, *seeds: int) -> set[int]:
    """Checks networks whose rows end at many times; the lengths seen."""
    seen: set[int] = set()
    for seed in seeds:
        network = network_of(model, "scan", seed, tied_output=False, embedding="noscale")
        seen |= set(check(network, 12, None, batch=24))
    return seen


@pytest.mark.parametrize("model", one_of_each_mechanism("scan"))
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
    monkeypatch.setitem(greedy_decoding.CHECK_EVERY, "cpu", 5)
    assert {0, 1, 12} <= lengths_over_seeds(model, 0, 3)
    network = network_of(model, "scan", tied_output=False)
    oracle = [0, 1, 5, 7, 3, 6, 2, 7, 1, 1, 0, 4]
    assert check(network, 9, oracle) == oracle


@dataclass(frozen=True)
class Rows(State):
    """Which script each row of the batch follows."""

    rows: Tensor


class Scripted(EncoderDecoder):
    """Prefers the tokens of a script; if the end token is forbidden, the tokens of a second script.

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


class Short(Scripted):
    """Has no position after the fourth token."""

    def step(self, tokens: Tensor, state: DecodeState) -> tuple[Tensor, DecodeState]:
        if state.position == 4:
            raise TooLong("a sequence of 5 positions")
        return super().step(tokens, state)


def test_rows_that_have_ended_may_pass_the_longest_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted now and then, as on a GPU, they go on to where positions end; rows that still write may not."""
    monkeypatch.setitem(greedy_decoding.CHECK_EVERY, "cpu", 8)
    scripts = [[2, 3], [4], [5, 6, 7]]
    inputs = torch.arange(3)[:, None]
    result = greedy(Short(scripts, [[5] * 20] * 3), inputs, inputs >= 0, 9, END)
    assert result.tokens.tolist() == [script + [END] * (9 - len(script)) for script in scripts]
    with pytest.raises(TooLong, match="5 positions"):
        greedy(Short([[2] * 5, [4], [5]], [[5] * 20] * 3), inputs, inputs >= 0, 9, END)


@requires_gpu
def test_rows_that_have_ended_may_pass_the_longest_position_on_a_gpu() -> None:
    """There rows are counted every eight tokens."""
    longest = SPECS["scan"].max_output_length
    network = network_of("linear", "scan", tied_output=False, positions="learned").to("cuda")
    inputs = torch.randint(7, (3, 5), device="cuda")
    oracle = torch.tensor([0, longest, 3], device="cuda")
    with torch.no_grad():
        result = greedy(network, inputs, inputs >= 0, longest + 30, END, oracle)
        assert result.lengths.tolist() == oracle.tolist()
        with pytest.raises(TooLong, match="learned"):
            greedy(network, inputs, inputs >= 0, longest + 30, END, oracle + 1)


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


def batch_for(rows: Sequence[int], targets: Sequence[list[int]], size: int) -> SequenceBatch:
    """Inputs that begin with these numbers, and targets without their end, padded to `size`."""
    return SequenceBatch(
        index=torch.tensor(rows),
        inputs=torch.tensor([[row, 0] for row in rows]),
        input_lengths=torch.full((len(rows),), 2),
        targets=torch.tensor([target + [END] + [0] * (size - 1 - len(target)) for target in targets]),
        target_lengths=torch.tensor([len(target) + 1 for target in targets]),
    )


def test_what_counts_as_right() -> None:
    """All cases as one batch and each alone, with a limit of 6 tokens, the end included."""
    targets, scripts, without_end, right, oracle = (list(column) for column in zip(*CASES.values(), strict=True))
    without_end = [[min(token, 8) for token in script] for script in without_end]
    network, size = Scripted(scripts, without_end), max(map(len, targets)) + 1

    def judge(rows: list[int]) -> tuple[list[bool], list[bool]]:
        result = sequence_scores(network, batch_for(rows, [targets[row] for row in rows], size), limit=6, end_id=END)
        # this network writes the same whatever it reads, so it is all one which end tokens it reads
        assert torch.equal(result["sequence_accuracy_end_ignored"], result["sequence_accuracy_oracle_end"])
        return result["sequence_accuracy"].tolist(), result["sequence_accuracy_oracle_end"].tolist()

    assert judge(list(range(len(CASES)))) == (right, oracle)
    for row, name in enumerate(CASES):
        assert judge([row]) == ([right[row]], [oracle[row]]), name


class Listening(Scripted):
    """Follows its script until it has read an end token that it wrote, then a second one, always behind the end."""

    def __init__(self, scripts: list[list[int]], without_end: list[list[int]], after_end: list[list[int]]) -> None:
        super().__init__(scripts, without_end)
        self.third = torch.tensor(after_end)

    def step(self, tokens: Tensor, state: DecodeState) -> tuple[Tensor, DecodeState]:
        logits, after = super().step(tokens, state)
        rows, ended = state.layers[0][0].rows, state.layers[0][1]
        over = (tokens == END) & (state.position > 0) | (torch.zeros_like(rows).bool() if ended is None else ended.rows)
        reported = torch.zeros_like(logits).scatter(1, self.third[rows, state.position][:, None], 1)
        reported[:, END] = 2
        return torch.where(over[:, None], reported, logits), DecodeState(
            after.position, [(Rows(0, rows), Rows(0, over))]
        )


THREE_RULES = {  # target 2 3 4; preferred, second, second once an end was read; right by each rule
    "all three": ([2, 3, 4], [5] * 9, [5] * 9, True, True, True),
    "the end comes late": ([2, 3, 4, 4], [5] * 9, [5] * 9, False, True, True),
    "an end that is read puts it off": ([2, END, 4], [9, 3, 9], [5] * 9, False, True, False),
    "an end that is read puts it right": ([2, END, 5], [9, 3, 9], [5, 5, 4, 5], False, False, True),
    "wrong before the end": ([5, END, 4], [9, 3, 9], [5, 5, 4, 5], False, False, False),
    "wrong in place of the end": ([2, END, 4], [9, 5, 9], [5, 5, 4, 5], False, False, False),
    "it ends at once": ([END], [2, 9, 9], [9, 3, 4, 9], False, False, True),
}


@pytest.mark.parametrize("every", [1, 3])
def test_the_three_rules_differ(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(greedy_decoding.CHECK_EVERY, "cpu", every)
    columns = [list(column) for column in zip(*THREE_RULES.values(), strict=True)]
    tables = [[[min(token, 8) for token in (row + [END] * 20)[:20]] for row in column] for column in columns[:3]]
    network, rows = Listening(*tables), list(range(len(THREE_RULES)))
    for chosen in (rows, *([row] for row in rows)):
        result = sequence_scores(network, batch_for(chosen, [[2, 3, 4]] * len(chosen), 4), limit=9, end_id=END)
        for rule, column in zip(result.values(), columns[3:], strict=True):
            assert rule.tolist() == [column[row] for row in chosen], chosen


def written_freely(network: EncoderDecoder, inputs: Tensor, mask: Tensor, limit: int) -> list[list[int]]:
    """The likeliest token except the end at every position, reading its own end tokens (Csordas et al.)."""
    read, named = torch.full((len(inputs), 1), END), []
    for _ in range(limit):
        logits = network(inputs, mask, read, torch.ones_like(read).bool())[0][:, -1]
        read = torch.cat((read, logits.argmax(-1)[:, None]), dim=1)
        logits[:, END] = -torch.inf
        named.append(logits.argmax(-1))
    return torch.stack(named, dim=1).tolist()


@pytest.mark.parametrize("model", ["linear", "vanilla"])
def test_the_three_rules_equal_naive_loops(model: str) -> None:
    """Targets are what networks write by either oracle, at many lengths, some with one token changed."""
    limit, kinds = 9, set()
    for seed in range(4):
        network = network_of(model, "scan", seed, tied_output=False, embedding="noscale")
        inputs, mask = torch.randint(7, (24, 5)), masks([1 + row % 5 for row in range(24)], 5)
        with torch.no_grad():
            network.target_embedding.table.weight[END] *= 5
            free = naive(network, inputs, mask, limit, None)
            newman = naive(network, inputs, mask, limit, torch.full((24,), limit))
            csordas = written_freely(network, inputs, mask, limit)
        targets = [(newman, csordas, free)[row % 3][row][: (row + seed) % limit] for row in range(24)]
        targets = [[*target[:-1], 3] if row % 7 == 0 and target else target for row, target in enumerate(targets)]
        batch = replace(batch_for(range(24), targets, limit), inputs=inputs, input_lengths=mask.sum(1))
        with torch.no_grad():
            actual = sequence_scores(network, batch, limit, END)
        expected = [
            (freely == target, by_newman[: len(target)] == target, by_csordas[: len(target)] == target)
            for freely, by_newman, by_csordas, target in zip(free, newman, csordas, targets, strict=True)
        ]
        assert list(zip(*(rule.tolist() for rule in actual.values()), strict=True)) == expected
        kinds |= set(expected)
    assert {(True, True, True), (False, True, True), (False, True, False), (False, False, False)} <= kinds
