"""Batches of every kind of task at random, for tests of training steps."""

import torch

from attnlab.data.batch import (
    Batch,
    ImageQuestionBatch,
    LabelledBatch,
    LabelledPairBatch,
    LanguageBatch,
    SequenceBatch,
    length_mask,
)
from attnlab.tasks.kinds.base import kind_of
from support.model_cases import SPECS


def drawn_batch(task: str, more: int = 0) -> Batch:
    """Three examples of a task of `model_cases.SPECS`, of up to 6 and 5 tokens and `more`."""
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
    return kind_of(spec).training_batch(batch)
