"""Batches of every kind of task at random, for tests of training steps.

test_compiled_step.py runs it in a separate process, as compile_networks.py is run: without the shape checks of
conftest.py it compiles a training step of each pair named (`scan/linear`) and prints a line for it: its name, then "ok"
or what went wrong.
"""

import sys

import torch
from torch import Tensor, nn

from attnlab.data.batch import (
    Batch,
    ImageQuestionBatch,
    LabelledBatch,
    LabelledPairBatch,
    LanguageBatch,
    SequenceBatch,
    length_mask,
)
from attnlab.learn.compiled_step import compiled
from attnlab.learn.objectives import hide_tokens, objective_for
from support.model_cases import SPECS, network_of
from support.tensors import gradients


def drawn_batch(task: str, more: int = 0) -> Batch:
    """Three examples of a task of `models.SPECS`, of up to 6 and 5 tokens and `more`."""
    spec, index = SPECS[task], torch.arange(3)
    lengths, others = torch.tensor([6, 3, 1]) + more, torch.tensor([5, 2, 4]) + more
    inputs, second = torch.randint(4, 6, (3, 6 + more)), torch.randint(4, 6, (3, 5 + more))
    if spec.kind == "encoder_decoder":
        return SequenceBatch(index=index, inputs=inputs, input_lengths=lengths, targets=second, target_lengths=others)
    if spec.modality == "image_question":
        images = torch.randint(256, (3, *spec.image_shape)).byte()
        questions = torch.randint(2, (3, spec.question_size)).byte()
        return ImageQuestionBatch(index=index, images=images, questions=questions, answers=index, groups=index)
    if spec.kind == "classification":
        answers = torch.randint(spec.n_classes, (3,))
        if spec.modality == "tokens":
            return LabelledBatch(index=index, inputs=inputs, input_lengths=lengths, answers=answers)
        return LabelledPairBatch(
            index=index, inputs=inputs, input_lengths=lengths, answers=answers, others=second, other_lengths=others
        )
    scored = length_mask(lengths, 6 + more)
    batch = LanguageBatch(index=index, inputs=inputs, lengths=lengths, targets=inputs, scored=scored, words=lengths)
    return hide_tokens(batch, spec) if spec.kind == "masked_language_model" else batch


def compiled_problem(task: str, network: nn.Module, backend: str) -> str:
    """Why a step is not one graph with the losses and gradients of the eager one; "ok" if it is (by inductor, for two
    lengths: the second is compiled anew)."""
    objective = objective_for(SPECS[task])
    step = compiled(objective, torch.device("cpu"), backend)
    try:
        for more in (0, 1) if backend == "inductor" else (0,):
            batch = drawn_batch(task, more)
            found, expected = step(network, batch), objective(network, batch)
            compare(found, expected, network)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:500]
    return "ok"


def compare(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor], network: nn.Module) -> None:
    """Loss, penalty and the gradients of their sum."""
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    slopes = gradients(sum(expected), network)
    for name, value in gradients(sum(found), network).items():
        torch.testing.assert_close(value, slopes[name], rtol=1e-8, atol=1e-10, msg=name)


def main(backend: str, pairs: list[str]) -> None:
    torch.set_num_threads(1)
    for pair in pairs:
        task, _, model = pair.partition("/")
        torch.compiler.reset()
        print(pair, compiled_problem(task, network_of(model, task, n_layers=1), backend), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
