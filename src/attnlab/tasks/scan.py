"""SCAN (Lake & Baroni 2018, arXiv 1711.00350): commands in a small English, and the actions they stand for.

One example, as in the official file `tasks.txt`:

    IN: walk opposite left and jump thrice OUT: I_TURN_LEFT I_TURN_LEFT I_WALK I_JUMP I_JUMP I_JUMP

All 20,910 pairs follow from a grammar (tasks/scan_grammar.py). `split=length_cutoff` (Csordas et al. 2021) needs
nothing else; the official splits are lists of pairs, read from a clone of github brendenlake/SCAN, from an archive of
one, or downloaded. There is no validation set in any of them.
"""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from attnlab.config.spec import SEQUENCE_METRICS, TaskSpec
from attnlab.data.fetch import DataError, Folders, OfficialFile, fetch
from attnlab.data.pairs import SequencePairs
from attnlab.data.trees import Source, bad_line, find_tree
from attnlab.tasks.base import Prepared, Task
from attnlab.tasks.scan_grammar import INPUTS, MAX_INPUT, MAX_OUTPUT, OUTPUTS, Pair, all_pairs, interpret

PLACES = ("SCAN", "scan/SCAN", "SCAN.tar.gz", "scan/SCAN.tar.gz", "SCAN/SCAN.tar.gz")
REPOSITORY = "https://raw.githubusercontent.com/brendenlake/SCAN/c4b756cbc010d75c912f16c42c8f15dc6b7e6c8f/"
FILES = {  # part and split: bytes, sha256
    "train_simple": (3267938, "941bb8a088c5f53ceff12fde902dc008933cf0c4203cc672c47b5f79d73262dd"),
    "test_simple": (812450, "1fe1c8f5a19d0dc40e41bab94278f45f66f3dc415a978bd29855a23440610fc6"),
    "train_length": (2723418, "b034212dc7cf87ce62f3a067dd6ad49c4d5cd18d51d615d13825516bcb1ebbc2"),
    "test_length": (1356970, "0760752ed34a75116ae11dcc1ee17526b7500060da1366540730fa24894d7db3"),
    "train_addprim_jump": (2579619, "e3c78485692e028eed4205e1b8b3fd0e785ef2c12d45b5b89204dadf5b239e23"),
    "test_addprim_jump": (1531555, "8147ae2651422c701162e174d9d66158daa57858a26b30317ac61797118ac7a5"),
    "train_addprim_turn_left": (3974537, "1b3fed86055dd7689d217f1b90cc8960aeb1cf200f4f209dc47935761b05304c"),
    "test_addprim_turn_left": (173679, "15a82c2d25ac7c3c1fff7e18051fb085974ef3617de895c520d02144396a10e2"),
    "train_template_jump_around_right": (3468272, "f63ba9149feeb021fbb44132265d7b15e6a07e6b12c9d3220418d97d97d71735"),
    "test_template_jump_around_right": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_template_around_right": (2558693, "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f"),
    "test_template_around_right": (1243177, "fc78a5d1077dc2c206d6c42ed89fb9022867618c3f331179bafd3ec1ca699474"),
    "train_filler_num0": (2558693, "d5d35d174d557645fc61f289424afa0d95fde21422c59a9819e2d0fcfa9d419f"),
    "test_filler_num0": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num1": (2851719, "fe2208764e3b873420d31929e137918566b9e49d0052f7be2af68ad129006273"),
    "test_filler_num1": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num2": (3158377, "732f3663553b2a41a9a37d2f07c9719a4d9d3f2cd190380e572697b2e4ea730f"),
    "test_filler_num2": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
    "train_filler_num3": (3468272, "f63ba9149feeb021fbb44132265d7b15e6a07e6b12c9d3220418d97d97d71735"),
    "test_filler_num3": (333598, "a3a27e06adece97da26ae506de08c4b6848035970c561691edbf4dcb1e45f9af"),
}


def parse_pairs(text: str, where: str) -> list[Pair]:
    """The pairs of a file in the official format, each checked against the grammar.

    Raises:
        DataError: names `where` and the number of the first line that is wrong, and how.
    """
    pairs = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        try:
            pairs.append(_parse_line(line))
        except (ValueError, DataError) as error:
            raise bad_line(where, number, str(error)) from None
    return pairs


def _parse_line(line: str) -> Pair:
    match = re.fullmatch(r"IN: (.+) OUT: (.+)", line)
    if match is None:
        raise ValueError(f"'IN: <command> OUT: <actions>' expected, found {line[:80]!r}")
    command, actions = (part.split(" ") for part in match.groups())
    INPUTS.encode(command)
    OUTPUTS.encode(actions)
    if actions != (expected := interpret(command)):
        raise ValueError(f"{' '.join(command)!r} means {' '.join(expected)!r}, found {' '.join(actions)!r}")
    return command, actions


def official_file(split: str, part: str) -> OfficialFile:
    """The file of an official split; `part` is train or test."""
    family = {"addprim": "add_prim"}.get(kind := split.partition("_")[0], kind)
    path = f"{family}_split/tasks_{part}_{split}.txt"
    size, sha256 = FILES[f"{part}_{split}"]
    return OfficialFile(path=f"SCAN/{path}", url=REPOSITORY + path, size=size, sha256=sha256)


def read_official(split: str, part: str, folders: Folders) -> list[Pair]:
    """The pairs of an official file: from a clone of the repository, an archive of one, or a download.

    Raises:
        DataError: the file is missing and cannot be downloaded, or is not the official one (first bad line, checksum).
    """
    file = official_file(split, part)
    content, where = _content(file, folders)
    pairs = parse_pairs(content.decode("ascii", errors="replace"), where)
    if (found := hashlib.sha256(content).hexdigest()) != file.sha256:
        raise DataError(
            f"{where} is not the official file: expected sha256 {file.sha256}, found {found} "
            f"({len(content)} bytes where {file.size} are expected). Put the official file in its place ({file.url})."
        )
    return pairs


def _content(file: OfficialFile, folders: Folders) -> tuple[bytes, str]:
    name = file.path.removeprefix("SCAN/")
    for place in PLACES:
        tree = find_tree(folders.data, [place])
        for _, where, found in tree.walk(lambda other: other == name) if tree else ():
            return found.read(), where
    path: Path = fetch(file, folders.data, folders.cache)
    return path.read_bytes(), str(path)


class Scan(Task):
    """SCAN.

    Args:
        split: `length_cutoff`: pairs with at most `length_cutoff` actions are divided into 90 % `train` and 10 %
            `test/iid`, longer ones are `test/ood`. Any other: the official split of that name, `train` and `test`;
            rows that the add-primitive files repeat on purpose stay repeated.
        length_cutoff: most actions in training, for `split=length_cutoff`.
        data_seed: draws the 90/10 division; the published division is equal in size but not in rows.
    """

    kind = "encoder_decoder"
    modality = "tokens"
    version = 1
    published = "20,910 pairs; cutoff 26: train 16,458, test/iid 1,828, test/ood 2,624"

    def __init__(
        self,
        split: Literal[
            "length_cutoff",
            "simple",
            "length",
            "addprim_jump",
            "addprim_turn_left",
            "template_jump_around_right",
            "template_around_right",
            "filler_num0",
            "filler_num1",
            "filler_num2",
            "filler_num3",
        ] = "length_cutoff",
        length_cutoff: Annotated[int, "[1, 47]"] = 26,
        data_seed: Annotated[int, "[0, inf)"] = 0,
    ) -> None:
        self.split, self.length_cutoff, self.data_seed = split, length_cutoff, data_seed

    def sources(self) -> list[Source]:
        if self.split == "length_cutoff":
            return []
        offer = "a clone of https://github.com/brendenlake/SCAN, 4 MB a split (downloaded when it is missing)"
        return [Source(what=f"SCAN's official split {self.split}", places=PLACES, offers=(offer,))]

    def example(self, prepared: Prepared, subset: str, number: int) -> str:
        pairs = prepared.subsets[subset]
        command, actions = INPUTS.decode(pairs.inputs[number]), OUTPUTS.decode(pairs.targets[number])
        return f"IN: {' '.join(command)} OUT: {' '.join(actions)}"

    def token_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return INPUTS.words, OUTPUTS.words

    def prepare(self, folders: Folders) -> Prepared:
        if self.split == "length_cutoff":
            parts = self._cut()
        else:
            parts = {part: read_official(self.split, part, folders) for part in ("train", "test")}
        subsets = {name: _table(pairs) for name, pairs in parts.items()}
        # the vocabulary and the lengths are the grammar's, so that a model can be evaluated on any other split
        spec = TaskSpec(
            kind=self.kind,
            modality=self.modality,
            input_vocabulary=len(INPUTS),
            output_vocabulary=len(OUTPUTS),
            pad_id=INPUTS.pad_id,
            end_id=INPUTS.end_id,
            never_targets=OUTPUTS.never_targets,
            max_input_length=MAX_INPUT + 2,
            max_output_length=MAX_OUTPUT + 1,
            metrics=SEQUENCE_METRICS,
        )
        limits = {name: int(subset.lengths.max()) + 1 for name, subset in subsets.items() if name != "train"}
        return Prepared(spec=spec, subsets=subsets, decode_limits=limits)

    def _cut(self) -> dict[str, list[Pair]]:
        pairs = list(all_pairs())
        short = [pair for pair in pairs if len(pair[1]) <= self.length_cutoff]
        # a tenth, less one where it divides evenly: the published code rounds (1 - 0.9) n down in floating point
        n_iid = max(1, (len(short) - 1) // 10)
        order = np.random.default_rng(self.data_seed).permutation(len(short))
        return {
            "train": [short[number] for number in np.sort(order[n_iid:])],
            "test/iid": [short[number] for number in np.sort(order[:n_iid])],
            "test/ood": [pair for pair in pairs if len(pair[1]) > self.length_cutoff],
        }


def _table(pairs: list[Pair]) -> SequencePairs:
    start, end = INPUTS.start_id, INPUTS.end_id
    inputs = [[start, *INPUTS.encode(command), end] for command, _ in pairs]
    targets = [[*OUTPUTS.encode(actions), end] for _, actions in pairs]
    return SequencePairs.of(inputs, targets, INPUTS.pad_id)
