"""Every task in small: a few lines of data in the official layouts, and settings that train within a second."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.config.conf_files import group_choices
from attnlab.config.job_config import check_config
from attnlab.config.run_identity import run_folder
from support.official_layout_converters import aan_stand_in, pathfinder_stand_in, python2
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, config_of, run_job

SIZES = (
    "backbone.d_model=16",
    "backbone.n_heads=2",
    "backbone.n_layers=2",
    "backbone.d_feed_forward=16",
    "train.batch_size=8",
    "train.eval_batch_size=64",
    "train.log_every=1",
)
ONCE = ("train.validate_every=1000",)
"""validate at the last step alone"""
FEW = ("task.train_examples=64", "task.val_examples=8", "task.test_examples=8")
TINY: dict[str, tuple[str, ...]] = {
    "scan": SMALL_SCAN,
    "sort_of_clevr": SMALL_CLEVR,
    "mathematics": (*SIZES, "task.questions_per_difficulty=30", "task.test_questions=4"),
    "pcfg": (*SIZES, "task.split=substitutivity"),
    "cogs": (*SIZES, *ONCE),
    "lra_listops": (
        *(*SIZES, *ONCE, "backbone.d_classifier=8", "task.source=generated", "task.min_length=5", "task.max_length=60"),
        *("task.train_size=40", "task.val_size=8", "task.test_size=8"),
    ),
    "lra_text": (*SIZES, *ONCE, "backbone.d_classifier=8", "task.max_length=100"),
    "lra_retrieval": (*SIZES, *ONCE, "backbone.d_classifier=8", "task.max_length=60"),
    "lra_pathfinder": (*SIZES, *ONCE, "backbone.d_classifier=8"),
    "lra_image": (*SIZES, *ONCE, "backbone.d_classifier=8"),
    "wikitext103": (*SIZES, *ONCE, "task.length=16"),
    "wikitext103_masked": (*SIZES, *ONCE, "task.length=24", "task.vocabulary_size=300"),
    "wikitext2": (*SIZES, *ONCE, "task.length=16", "task.vocabulary_size=300"),
    "glue": (
        *SIZES,
        "train.max_epochs=null",
        "task.max_length=24",
        "task.vocabulary_size=300",
        "backbone.d_classifier=8",
    ),
    "flip_flop": (*SIZES, "task.length=16", "task.train_sequences=64", "task.test_sequences=8"),
    "mqar": (*SIZES, "task.vocabulary=40", "task.length=16", "train.max_epochs=null", *FEW, *ONCE),
    "formal_language": (*SIZES, "task.length=6", "task.test_length=8", *FEW, *ONCE),
    "word_problem": (*SIZES, "task.length=6", *FEW, *ONCE),
    "algorithmic": (*SIZES, "task.size=5", *FEW, *ONCE),
    "mad": (*(*SIZES, *ONCE, *FEW, "train.max_epochs=null", "task.dataset=compression", "task.length=16"),),
}
TINY |= {task: SIZES for task in group_choices()["task"] if task not in TINY}
"""a task of a user's own needs no entry"""
FIXTURES = Path(__file__).parents[1] / "fixtures"
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "one", "dog", "that", "ran", "to", "some", "old", "tree"]


def sentences(seed: int, n: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(3, 9))) for _ in range(n)]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_data(data: Path) -> None:
    """Writes the files of every task that reads some."""
    folder = data / "am-i-compositional/data/pcfgset/substitutivity/primitive"
    rows = [
        ("copy A1 B2", "A1 B2"),
        ("echo C3 D4", "C3 D4 D4"),
        ("append A1 , B2", "A1 B2"),
        ("reverse A1 B2", "B2 A1"),
    ]
    for part in ("train", "test", "test_twin"):
        for side, ending in enumerate(("src", "tgt")):
            write(folder / f"{part}.{ending}", "".join(f"{row[side]}\n" for row in rows * 3))
    for name in ("cogs/COGS", "cfq/cfq"):
        shutil.copytree(FIXTURES / name, data / name, dirs_exist_ok=True)
    for subset in ("train", "test"):
        for number, sentence in enumerate(sentences(len(subset), 24)):
            side, rating = (("neg", 2), ("pos", 9))[number % 2]
            write(data / f"aclImdb/{subset}/{side}/{number}_{rating}.txt", f"{sentence} {subset}")
    aan_stand_in.write_layout(None, data, {"train": 24, "eval": 8, "test": 8})
    pathfinder_stand_in.write_layout(data, 30)
    draw = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        pixels, labels = draw.integers(0, 256, (6, 3072), dtype=np.uint8), draw.integers(0, 10, 6).tolist()
        path = data / "cifar-10-batches-py" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(python2.batch(pixels, labels, [f"{number}.png" for number in range(6)]))
    for corpus, ending in (("wikitext-103", "tokens"), ("wikitext-103-raw", "raw"), ("wikitext-2", "tokens")):
        for seed, part in enumerate(("train", "valid", "test")):
            lines = [f" = {part} = \n", *(f" {sentence} . \n" for sentence in sentences(seed, 30))]
            write(data / corpus / f"wiki.{part}.{ending}", "".join(lines))
    for part, seed in (("train", 0), ("dev", 1)):
        rows = [f"x\t{number % 2}\t\t{sentence}\n" for number, sentence in enumerate(sentences(seed, 24))]
        write(data / f"GLUE/CoLA/{part}.tsv", "".join(rows))


def raw_of(data: Path, folder: Path, task: str, *more: str) -> dict[str, Any]:
    """The configuration of a tiny run: files and cache in `data`, the run below `folder`."""
    paths = [f"paths.data={data / 'data'}"]
    raw = config_of(folder, f"task={task}", *TINY[task], "train.max_steps=2", *paths, *more)
    return raw | {"paths": raw["paths"] | {"cache": str(data / "cache")}}


def trained(data: Path, folder: Path, task: str, *more: str) -> tuple[Path, dict[str, Any]]:
    """A finished tiny run and its result."""
    raw = raw_of(data, folder, task, *more)
    assert check_config(raw) == []
    assert run_job(raw, quiet=True) == 0
    return run_folder(raw), json.loads((run_folder(raw) / "result.json").read_text())
