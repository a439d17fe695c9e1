"""Messages at the start of a run; finished runs are shown without Lightning after the same comparison."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.small_runs import (
    ROOT,
    SMALL_CLEVR,
    SMALL_SCAN,
    config_of,
    environment,
    run_job,
    settings,
    two_finished_runs,
)

from attnlab.config.job_config import job_config
from attnlab.config.run_identity import run_folder
from attnlab.launch.console_summary import print_sweep
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.launch.run_job import exit_code
from attnlab.run import train_run

SMALL = (
    *(word for word in SMALL_SCAN if not word.startswith("train.eval_batch_size=")),
    "model=linear",
    "train.max_steps=2",
    "train.eval_batch_size=4",
    "train.eval_batches=2",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two finished runs, of seeds 0 and 1, each tested on eight examples of a subset."""
    return two_finished_runs(tmp_path_factory.mktemp("finished"), *SMALL)


def test_finished_runs_are_shown_without_lightning(finished: Path) -> None:
    """One alone, and those of a sweep; in a process that has not loaded it yet."""
    line = settings(finished, *SMALL)
    code = f"import sys; from attnlab.launch.train_cli import train_main; codes = [train_main({line!r})]"
    code += f"; codes += [train_main({['-m', 'seed=0,1', 'hydra/launcher=basic', *line]!r})]"
    code += "; print('pytorch_lightning' in sys.modules, codes)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment(), cwd=ROOT, check=False
    )
    assert done.stdout.splitlines()[-1] == "False [0, 0]", done.stderr
    assert "To train it again, as after a change of your code, move its folder away." in done.stdout
    assert "2 runs in" in done.stdout


def test_a_finished_run_is_compared_before_it_is_shown(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # training cannot be imported
    monkeypatch.setitem(sys.modules, "attnlab.run.train_run", None)
    file = run_folder(config_of(finished, *SMALL)) / "config.yaml"
    former = file.read_text()
    try:
        file.write_text(former.replace("clip_norm: 5.0", "clip_norm: 4.0"))
        assert run_job(config_of(finished, *SMALL), quiet=False) == 1
    finally:
        file.write_text(former)
    assert "optim.clip_norm: 4.0 -> 5.0" in capsys.readouterr().err


def test_a_finished_run_is_shown_where_nothing_can_be_written(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("written to")

    monkeypatch.setattr("attnlab.run.run_folder.write_text", refuse)
    monkeypatch.setattr("attnlab.run.run_folder.RunFolder.create", refuse)
    monkeypatch.setattr("attnlab.run.run_folder.RunFolder.locked", refuse)
    assert run_job(config_of(finished, *SMALL), quiet=False) == 0
    assert "finished before" in capsys.readouterr().out


def test_a_run_says_at_once_what_it_is_and_then_how_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw, text = config_of(tmp_path, *SMALL), []

    def prepared_task(config: object) -> None:
        text.append(capsys.readouterr().err)
        return prepare(config)

    prepare = train_run.prepared_task
    monkeypatch.setattr(train_run, "prepared_task", prepared_task)
    assert run_job(raw, quiet=False) == 0
    assert text == ["task scan-length_cutoff-40, model linear, seed 0, device cpu\n"], "before data is read"
    size = json.loads((run_folder(raw) / "result.json").read_text())["parameters"]
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"{size:,} parameters, on CPU ") and first.endswith(", threads: 1")


def test_evaluations_that_are_cut_short_say_so(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(finished, *SMALL)
    result = json.loads((run_folder(raw) / "result.json").read_text())
    assert (result["counts"]["test/iid"], result["counts"]["test/ood"]) == (8, 8)
    assert result["debug"] == {"eval_batches": 2, "sizes": {"test/iid": 2078, "test/ood": 128}}
    assert run_job(raw, quiet=False) == 0
    assert "debug: evaluated on 8 of 2,078 examples of test/iid, 8 of 128 examples of test/ood" in (
        capsys.readouterr().out
    )
    assert print_sweep([job_config(raw)], ["seed=0"]) == 0
    assert "debug: " in capsys.readouterr().out


def test_evaluate_takes_the_whole_of_a_run_that_was_tested_in_part(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = run_folder(config_of(finished, *SMALL))
    words = [f"run={folder}", "subset=test/ood", "train.eval_batch_size=64"]
    counts = {}
    for batches in ("1", "null"):
        assert evaluate_main([*words, f"train.eval_batches={batches}", "lengths=1-99"]) == 0
        (file,) = (folder / "evaluations").iterdir()
        counts[batches] = json.loads(file.read_text())["counts"]["test/ood"], "debug" in json.loads(file.read_text())
        file.unlink()
    assert counts == {"1": (64, True), "null": (128, False)}
    assert evaluate_main([f"run={folder}", "subset=test/ood"]) == 0
    assert "note: 8 of 128 examples of test/ood are evaluated (train.eval_batches=2)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 1.86 TiB for an array"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes."),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: out of memory"),
        torch.OutOfMemoryError("Tried to allocate 2.00 GiB."),
    ],
)
def test_what_does_not_fit_into_memory_is_a_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(error, "runs/seed0") == 1
    printed = capsys.readouterr().err
    assert f"it does not fit into memory ({error}); train.max_tokens=4096 takes each batch in pieces" in printed
    assert "or make it smaller: train.batch_size" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            "CUDA error: invalid configuration argument\nCUDA kernel errors might be reported elsewhere.",
            "it is more than a kernel of the GPU takes (CUDA error: invalid configuration argument); train.max_tokens",
        ),
        (
            "cumsum_cuda_kernel does not have a deterministic implementation, but you set ...",
            "cumsum_cuda_kernel has no deterministic form on a GPU; use another operation, or write "
            "trainer.deterministic=false",
        ),
    ],
)
def test_what_a_gpu_refuses_is_a_sentence(error: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(RuntimeError(error), "runs/seed0") == 1
    shown = capsys.readouterr().err
    assert said in shown and "Traceback" not in shown


def test_a_warmup_beyond_the_steps_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """12 images of 3 * 10 questions in batches of 16: 21 steps a pass, as batches have one kind of question each."""
    steps = ("train.max_steps=null", "train.max_epochs=1", "model=linear", "optim.warmup_steps=43")
    assert run_job(config_of(tmp_path, *SMALL_CLEVR, *steps), quiet=False) == 0
    printed = capsys.readouterr().err
    assert "optim.warmup_steps=43" in printed and "21 steps" in printed
