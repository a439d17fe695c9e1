"""Random states of a GPU: the current one's only, and earlier checkpoints with the states of several."""

import pytest
import torch
from support.gpu import requires_gpu

from attnlab.learn.callbacks import preserved_rng, random_states, restore_random_states


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """A stand-in for a machine with one GPU; the list holds its random state."""
    state = [torch.tensor([7], dtype=torch.uint8)]

    def set_all(states: list[torch.Tensor]) -> None:
        for number, each in enumerate(states):
            state[number] = each

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: state[0])
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda new: set_all([new]))
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: [state[0], *torch.zeros(3, 1, dtype=torch.uint8)])
    monkeypatch.setattr(torch.cuda, "set_rng_state_all", set_all)
    return state


def test_only_the_state_of_the_current_gpu_is_saved(one_gpu: list[torch.Tensor]) -> None:
    saved = random_states()
    assert [each.tolist() for each in saved["cuda"]] == [[7]]
    one_gpu[0] = torch.tensor([8], dtype=torch.uint8)
    restore_random_states(saved)
    assert one_gpu[0].tolist() == [7]


def test_a_checkpoint_of_a_machine_with_more_gpus_is_resumed(one_gpu: list[torch.Tensor]) -> None:
    earlier = random_states() | {"cuda": [torch.tensor([number], dtype=torch.uint8) for number in (3, 4, 5, 6)]}
    restore_random_states(earlier)
    assert one_gpu[0].tolist() == [3]


@requires_gpu
def test_the_state_of_a_gpu_comes_back() -> None:
    torch.zeros(1, device="cuda")
    with preserved_rng():
        drawn = torch.rand(5, device="cuda")
    assert len(random_states()["cuda"]) == 1
    assert torch.equal(torch.rand(5, device="cuda"), drawn)
