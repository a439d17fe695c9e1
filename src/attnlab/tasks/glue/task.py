"""GLUE (Wang et al. 2018, arXiv 1804.07461): sentences, or pairs of them, to be classified; here to fine-tune on.

One example, number 0 of `train` of `dataset=cola`, whose line in the official file is
`gj04<tab>1<tab><tab>Our friends won't buy this analysis, let alone the next one we propose.`:

    sentence: Our friends won't buy this analysis, let alone the next one we propose.
    label: acceptable

| data set | texts                | answer                                | metrics                             |
| cola     | sentence             | unacceptable, acceptable              | Matthews correlation                |
| sst2     | phrase of a review   | negative, positive                    | accuracy                            |
| mrpc     | two sentences        | not equivalent, equivalent            | F1 of the equivalent ones, accuracy |
| qqp      | two questions        | no duplicates, duplicates             | F1 of the duplicates, accuracy      |
| stsb     | two sentences        | how alike, a number from 0 to 5       | Pearson, Spearman correlation       |
| mnli     | premise, hypothesis  | entailment, neutral, contradiction    | accuracy                            |
| qnli     | question, sentence   | entailment (it is answered), none     | accuracy                            |
| rte      | premise, hypothesis  | entailment, none                      | accuracy                            |
| wnli     | sentence, reading    | none, entailment                      | accuracy                            |

`sst2_sentences` is SST-2 without GLUE's training phrases: 6,920 whole sentences. Inputs are framed as in RoBERTa (Liu
et al. 2019): start a end, or start a end end b end.

The labels of GLUE's test sets are not public. `test` is the official development set (for mnli `test/matched` and
`test/mismatched`), as in published tables (Qin et al. 2022, table 5, which reports QQP's accuracy, not its F1). They
choose learning rates by it, which makes its numbers slightly too good. There is no other validation set. 18 of CoLA's
1,043 development sentences are in its training file too, two of them with the other label.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np

from attnlab.config.user_path import user_path
from attnlab.data.batch import LabelledBatch
from attnlab.data.examples import LabelledSequences
from attnlab.data.files.cache import load_arrays, save_arrays
from attnlab.data.files.fetch import DataError, Folders, sha256_of
from attnlab.data.files.folder_or_archive import DataSource
from attnlab.data.files.progress import track
from attnlab.data.ragged_arrays import Ragged, RaggedWriter
from attnlab.data.user_inputs import Form, encoded, labelled_batch
from attnlab.data.vocabulary import BytePair
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.glue.data_sets import DATA_SETS
from attnlab.tasks.glue.files import FileRows, HubRows, Row, open_rows

TOKENIZER = "tokenizer.json"
LENGTH_BINS = (0, 8, 16, 32, 64, 128, 256)
CHUNK = 4096
"""rows that are tokenized together"""


def cut(first: int, second: int, longest: int) -> tuple[int, int]:
    """Lengths of two texts cut to `longest` tokens in all; the longer text is cut first."""
    if first + second <= longest:
        return first, second
    kept = min(first, max((longest + 1) // 2, longest - second))
    return kept, longest - kept


def framed(texts: Sequence[np.ndarray], longest: int) -> np.ndarray:
    """One or two texts with framing tokens, cut to `longest` tokens in all."""
    start, end = [BytePair.start_id], [BytePair.end_id]
    if len(texts) == 1:
        return np.concatenate((start, texts[0][: longest - 2], end))
    first, second = cut(len(texts[0]), len(texts[1]), longest - 4)
    return np.concatenate((start, texts[0][:first], end, end, texts[1][:second], end))


class Glue(Task):
    """One data set of GLUE.

    Args:
        dataset: name of the data set.
        source: `files`: official files in the data folder, downloaded if missing; `hub`: `nyu-mll/glue` through the
            package `datasets`; `auto`: files if they exist, else the hub.
        from_run: folder of a run (of a masked model) with a `tokenizer.json` to use; null: byte pairs are trained on
            the training sentences.
        vocabulary_size: size of the byte-pair vocabulary that is trained here.
        max_length: longest input with framing, also for the model; longer inputs are cut, the longer text first. The
            learned positions of another run fit only at its length.
    """

    kind = "classification"
    modality = "tokens"
    version = 1
    subsets = ("train", "test")
    subsets_with: ClassVar = {"dataset": {"mnli": ("train", "test/matched", "test/mismatched")}}
    published = (
        "train and dev: cola 8,551 and 1,043; sst2 67,349 and 872; mrpc 3,668 and 408; qqp 363,846 and 40,430; stsb "
        "5,749 and 1,500; mnli 392,702 and 9,815 (matched), 9,832 (mismatched); qnli 104,743 and 5,463; rte 2,490 and "
        "277; wnli 635 and 71"
    )

    def __init__(
        self,
        dataset: Literal[
            "cola", "sst2", "sst2_sentences", "mrpc", "mnli", "qnli", "qqp", "rte", "wnli", "stsb"
        ] = "cola",
        source: Literal["auto", "files", "hub"] = "auto",
        from_run: str | None = None,
        vocabulary_size: Annotated[int, "[260, inf) up to 1e7"] = 8192,
        max_length: Annotated[int, "[8, inf)"] = 512,
    ) -> None:
        self.dataset, self.source, self.from_run = dataset, source, from_run
        self.vocabulary_size, self.max_length = vocabulary_size, max_length
        self.data_set = DATA_SETS[dataset]

    def sources(self) -> list[DataSource]:
        return [self.data_set]

    def example(self, prepared: Prepared[LabelledSequences], subset: str, number: int) -> str:
        part, tokens = prepared.subsets[subset], BytePair.load(prepared.keep[TOKENIZER])
        ids, answer = part.inputs[number], part.answers[number]
        pieces = np.split(ids, np.flatnonzero(ids == BytePair.end_id))
        # an empty piece is between the two end tokens of a pair, and another one after the last end token
        texts = [tokens.decode(piece) for piece in pieces[:-1:2]]
        names = self.data_set.hub_texts or self.data_set.texts
        lines = [f"{name}: {text}" for name, text in zip(names, texts, strict=True)]
        label = self.data_set.classes[int(answer)] if self.data_set.classes else f"{answer:.4g}"
        return "\n".join([*lines, f"label: {label}"])

    def encode_inputs(self, prepared: Prepared, inputs: Sequence[str | tuple[str, str]]) -> LabelledBatch:
        """Inputs are texts, or pairs of texts where the data set has two."""
        tokens, names = BytePair.load(prepared.keep[TOKENIZER]), self.data_set.hub_texts or self.data_set.texts
        form = Form(f"{'two texts' if len(names) > 1 else 'a text'} ({', '.join(names)})", (str,) * len(names))

        def row(text: str | tuple[str, str]) -> np.ndarray:
            return framed(tokens.encode([text] if isinstance(text, str) else text), self.max_length)

        return labelled_batch(encoded(inputs, form, row), BytePair.pad_id)

    def decode_outputs(self, prepared: Prepared, outputs: Sequence[float]) -> list[str | float]:
        return [self.data_set.classes[int(output)] if self.data_set.classes else output for output in outputs]

    def prepare(self, folders: Folders) -> Prepared[LabelledSequences]:
        rows, tokenizer_file = open_rows(self.dataset, self.source, folders), self._tokenizer_file()
        vocabulary = sha256_of(tokenizer_file) if tokenizer_file else self.vocabulary_size
        options = {"rows": rows.identity, "vocabulary": vocabulary, "max_length": self.max_length}
        folder = self.cached(
            folders.cache, f"glue_{self.dataset}", options, lambda path: self._build(path, rows.read(), tokenizer_file)
        )
        tokens, arrays = BytePair.load(folder / TOKENIZER), load_arrays(folder)
        subsets = {subset: self._subset(arrays, subset) for subset in self.data_set.sizes}
        spec = self.task_spec(
            kind="classification" if self.data_set.classes else "regression",
            input_vocabulary=len(tokens),
            n_classes=len(self.data_set.classes) or 1,
            pad_id=BytePair.pad_id,
            end_id=BytePair.end_id,
            max_input_length=self.max_length,
            metrics=self.data_set.metrics,
        )
        about = self._about(rows, {subset: len(part) for subset, part in subsets.items()})
        return Prepared(spec=spec, subsets=subsets, about=about, keep={TOKENIZER: folder / TOKENIZER})

    def _tokenizer_file(self) -> Path | None:
        """Path of the tokenizer of `from_run`; None without it.

        Raises:
            DataError: the folder has no valid tokenizer.
        """
        if self.from_run is None:
            return None
        path = user_path("task.from_run", self.from_run) / TOKENIZER
        try:
            BytePair.load(path)
        except DataError as error:
            need = "the folder of a run that kept its byte pairs (wikitext103_masked) is expected"
            raise DataError(f"from_run={self.from_run}: {need}; {error}") from None
        return path

    def _build(self, folder: Path, rows: Mapping[str, list[Row]], tokenizer_file: Path | None) -> None:
        if tokenizer_file is None:
            train = track(rows["train"], "training byte pairs", len(rows["train"]))
            tokens = BytePair.train((text for texts, _ in train for text in texts), self.vocabulary_size)
            tokens.save(folder / TOKENIZER)
        else:
            shutil.copyfile(tokenizer_file, folder / TOKENIZER)
        tokens = BytePair.load(folder / TOKENIZER)
        for subset, part in rows.items():
            name = _file(subset)
            with RaggedWriter(folder, f"{name}_inputs", len(tokens) - 1) as writer:
                for ids in self._inputs(tokens, subset, part):
                    writer.append(ids)
            kind = np.uint8 if self.data_set.classes else np.float32
            save_arrays(folder, **{f"{name}_answers": np.array([answer for _, answer in part], dtype=kind)})

    def _inputs(self, tokens: BytePair, subset: str, rows: list[Row]) -> Iterator[np.ndarray]:
        starts = range(0, len(rows), CHUNK)
        for start in track(starts, f"tokens of {self.dataset} {subset}", len(starts)):
            sides = zip(*(texts for texts, _ in rows[start : start + CHUNK]), strict=True)
            for texts in zip(*map(tokens.encode, sides), strict=True):
                yield framed(texts, self.max_length)

    def _subset(self, arrays: Mapping[str, np.ndarray], subset: str) -> LabelledSequences:
        inputs = Ragged.from_arrays(arrays, f"{_file(subset)}_inputs")
        answers = arrays[f"{_file(subset)}_answers"]
        part = LabelledSequences(inputs, answers, BytePair.pad_id, length_bins=LENGTH_BINS)
        part.lengths = inputs.lengths - (2 if len(self.data_set.texts) == 1 else 4)
        return part

    def _about(self, rows: FileRows | HubRows, row_counts: Mapping[str, int]) -> str:
        counts = ", ".join(f"{subset} {n:,}" for subset, n in row_counts.items())
        if self.dataset == "sst2_sentences":
            note = "whole sentences, not the 67,349 phrases that GLUE trains on; test is the development set"
        elif not rows.whole:
            note = "the original corpus and its test set, not GLUE's division into 3,668 and 408 pairs"
        else:
            note = "test is the official development set, for GLUE's test labels are not public"
        if rows.whole and row_counts != self.data_set.sizes:
            official = ", ".join(f"{subset} {n:,}" for subset, n in self.data_set.sizes.items())
            note += f"; partial or another edition: the official one has {official}"
        return f"GLUE {self.dataset} from {rows.where}, {counts}: {note}."


def _file(subset: str) -> str:
    return subset.replace("/", "_")
