"""Data of random tokens, for measurements that depend only on sizes and need no files."""

import numpy as np

from attnlab.data.examples import LabelledSequences, SequencePairs
from attnlab.data.ragged_arrays import Ragged
from attnlab.data.task_spec import TaskSpec
from attnlab.tasks.base import Prepared
from attnlab.tasks.pcfg.interpreter import MAX_INPUT, MAX_OUTPUT, WORDS

BYTES = 256


def classes_of(length: int, examples: int) -> Prepared:
    """Byte sequences of one length in two classes, like LRA's text task."""
    draw = np.random.default_rng(0)
    inputs = Ragged.of(draw.integers(1, BYTES, (examples, length)))
    spec = TaskSpec(
        kind="classification", modality="tokens", input_vocabulary=BYTES, n_classes=2, max_input_length=length
    )
    return Prepared(spec=spec, subsets={"train": LabelledSequences(inputs, draw.integers(0, 2, examples), pad_id=0)})


def longest_of_pcfg(examples: int) -> Prepared:
    """Random words over the vocabulary of PCFG SET, as long as its longest inputs and outputs."""
    draw = np.random.default_rng(0)
    first = max(WORDS.pad_id, WORDS.end_id) + 1
    inputs, targets = (
        Ragged.of(draw.integers(first, len(WORDS), (examples, length))) for length in (MAX_INPUT + 2, MAX_OUTPUT + 1)
    )
    spec = TaskSpec(
        kind="encoder_decoder",
        modality="tokens",
        input_vocabulary=len(WORDS),
        output_vocabulary=len(WORDS),
        pad_id=WORDS.pad_id,
        end_id=WORDS.end_id,
        never_targets=WORDS.never_targets,
        max_input_length=MAX_INPUT + 2,
        max_output_length=MAX_OUTPUT + 1,
        metrics=("sequence_accuracy",),
    )
    pairs = SequencePairs(inputs, targets, WORDS.pad_id)
    return Prepared(spec=spec, subsets={"train": pairs}, decode_limits={"train": MAX_OUTPUT + 1})
