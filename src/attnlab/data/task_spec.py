"""What a task tells of itself: its kind, and the TaskSpec from which a network is built."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["encoder_decoder", "classification", "language_model", "masked_language_model"]
Modality = Literal["tokens", "token_pairs", "image_question"]

SEQUENCE_METRICS = ("sequence_accuracy", "sequence_accuracy_oracle_end", "sequence_accuracy_end_ignored")
"""metrics of every encoder_decoder task (attnlab.learn.example_scores says what each is)"""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What a model must know of a task; made by the task in `prepare()`; a network is built from it.

    kind             encoder_decoder: sequence in, sequence out; classification: one class an example;
                     language_model: every next token; masked_language_model: tokens that were hidden
    modality         tokens: integer sequences; token_pairs: two of them; image_question: an image and a question vector
    input_vocabulary number of input token ids, special ones included (0 where the input is no token)
    output_vocabulary number of output token ids, special ones included (0 for classification)
    n_classes        number of classes (0 for sequences); 1: the answer is a number, fitted by its squared error
    pad_id           id that fills padded places, in inputs and outputs alike
    end_id           id that ends an output and also starts the decoder (joint, as in Csordas et al. 2021)
    mask_id          id that stands for a hidden token (masked_language_model)
    n_special        ids below it are no words (masked_language_model: never hidden, never drawn as a random word)
    never_targets    output ids that are the target of no example (padding, start): their logits are hidden
    mask_share       share of the tokens that are predicted (masked_language_model)
    max_input_length, max_output_length  longest sequences over all splits, framing tokens included
    image_shape      height, width, channels of an image
    question_size    entries of a question vector
    metrics          what is measured, the first of them what validation selects by (attnlab.learn.metrics.METRICS)
    """

    kind: Kind
    modality: Modality
    input_vocabulary: int = 0
    output_vocabulary: int = 0
    n_classes: int = 0
    pad_id: int = 0
    end_id: int = 1
    mask_id: int = 0
    n_special: int = 0
    never_targets: tuple[int, ...] = ()
    mask_share: float = 0.0
    max_input_length: int = 0
    max_output_length: int = 0
    image_shape: tuple[int, int, int] = (0, 0, 0)
    question_size: int = 0
    metrics: tuple[str, ...] = ("accuracy",)
