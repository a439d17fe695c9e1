"""Properties of a task: its kind, and the TaskSpec from which a network is built."""

from dataclasses import dataclass
from typing import Literal

Modality = Literal["tokens", "token_pairs", "image_question"]

ORACLE_END = "sequence_accuracy_oracle_end"
"""the one metric of an encoder_decoder task without end tokens"""
SEQUENCE_METRICS = ("sequence_accuracy", ORACLE_END, "sequence_accuracy_end_ignored")
"""metrics of every encoder_decoder task (attnlab.tasks.kinds.encoder_decoder explains them)"""


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """Properties of a task that a network depends on; the task makes it in `prepare()`.

    kind             what is trained and scored: a file of `attnlab.tasks.kinds`, or the dotted path of a Kind
    modality         tokens: integer sequences; token_pairs: two of them; image_question: an image and a question vector
    input_vocabulary number of input token ids with special ids (0 for inputs without tokens)
    output_vocabulary number of output token ids with special ids (0 for classification)
    n_classes        number of classes (0 for sequences, 1 for a regression)
    pad_id           id of padding, in inputs and outputs
    end_id           id that ends an output and also starts the decoder (as in Csordas et al. 2021)
    end_token        whether outputs end in `end_id` (encoder_decoder); else no loss counts an end, no output has one,
                     and tests give the length (the -EOS models of Newman et al. 2020)
    mask_id          id of a masked token (masked_language_model)
    n_special        ids below it are special (masked_language_model: never masked, never drawn as a random word)
    never_targets    output ids that are never a target (padding, start): their logits are masked
    causal           whether a position sees only itself and what comes before it (tagging)
    mask_share       share of predicted tokens (masked_language_model)
    max_input_length, max_output_length  longest sequences over all splits, with framing tokens
    train_length     longest sequence of the training data, input or output, with framing tokens; filled in when a run
                     prepares its data (run.build_runtime.prepare), 0 where examples have no lengths
    image_shape      height, width, channels of an image
    question_size    entries of a question vector
    metrics          names of metrics (attnlab.learn.metrics.METRICS); validation selects by the first
    """

    kind: str
    modality: Modality
    input_vocabulary: int = 0
    output_vocabulary: int = 0
    n_classes: int = 0
    pad_id: int = 0
    end_id: int = 1
    end_token: bool = True
    mask_id: int = 0
    n_special: int = 0
    never_targets: tuple[int, ...] = ()
    causal: bool = False
    mask_share: float = 0.0
    max_input_length: int = 0
    max_output_length: int = 0
    train_length: int = 0
    image_shape: tuple[int, int, int] = (0, 0, 0)
    question_size: int = 0
    metrics: tuple[str, ...] = ("accuracy",)
