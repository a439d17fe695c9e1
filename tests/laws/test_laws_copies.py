"""Law 5: attentions and networks can be copied, pickled and saved."""

import pytest
from support.model_cases import SPECS, Case, apply, cases, causal_models, models_for, one_of_each_mechanism
from support.module_copies import check_copies, check_network_copies
from support.slow_cases import slow_except
from support.tensors import draw, gradients
from torch import Tensor, nn

PAIRS = [(task, model) for task in SPECS for model in models_for(task)]
FAST = [(task, model) for task in SPECS for model in one_of_each_mechanism(task)[:: 1 if task == "scan" else 6]]
USED = {name: case for name, case in cases().items() if [*case.modes()]}


@pytest.mark.parametrize("case", USED.values(), ids=USED)
def test_an_attention_can_be_copied_and_saved(case: Case) -> None:
    """In every form that it has, with its positions in scores."""
    x, memory = draw(2, 5, 8), draw(2, 4, 8)

    def results(attention: nn.Module) -> dict[str, Tensor]:
        outputs = {mode: apply(attention, mode, x, memory, None) for mode in case.modes()}
        loss = sum(out.square().sum() + penalty for out, penalty in outputs.values())
        return gradients(loss, attention) | {f"{mode} out": out for mode, (out, _) in outputs.items()}

    check_copies(case.make(), case.make(1), results)


@pytest.mark.parametrize(("task", "model"), slow_except(PAIRS, FAST))
def test_a_network_can_be_copied_and_saved(task: str, model: str) -> None:
    check_network_copies(task, model)


def test_one_decoder_can_be_copied_and_saved() -> None:
    """Of models that can do a sequence-to-sequence task in no other way, and of one that can."""
    for model in (*causal_models(), *models_for("scan")[:1]):
        check_network_copies("scan", model, architecture="decoder_only", prefix="causal")
