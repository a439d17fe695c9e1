"""`python evaluate.py`: other splits, cutoffs and lengths of a trained run, never touching its own result."""

import json
import shutil
from pathlib import Path

import pytest
from real_data import real_data
from runs import SMALL_CLEVR, SMALL_SCAN, config_of, run_command

from attnlab.config.naming import run_folder
from attnlab.run.evaluation import evaluate_main
from attnlab.run.job import run_job

STEPS = ("train.max_steps=3", "model=linear")


@pytest.fixture(scope="module")
def scan_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    raw = config_of(tmp_path_factory.mktemp("scan"), *SMALL_SCAN, *STEPS)
    assert run_job(raw, quiet=True) == 0
    return run_folder(raw)


def findings(run: Path, name: str) -> dict:
    return json.loads((run / "evaluations" / f"{name}.json").read_text())


def test_own_test_again_gives_the_same_numbers(scan_run: Path) -> None:
    before = (scan_run / "result.json").read_bytes()
    assert evaluate_main([f"run={scan_run}"]) == 0
    assert findings(scan_run, "scan-length_cutoff-40")["metrics"] == json.loads(before)["metrics"]
    assert (scan_run / "result.json").read_bytes() == before


def test_another_cutoff(scan_run: Path) -> None:
    assert evaluate_main([f"run={scan_run}", "task.length_cutoff=36", "subset=test/ood"]) == 0
    assert findings(scan_run, "scan-length_cutoff-36,subset=test_ood")["counts"]["test/ood"] == 384


def test_one_length(scan_run: Path) -> None:
    assert evaluate_main([f"run={scan_run}", "lengths=20-24", "subset=train"]) == 0
    counts = findings(scan_run, "scan-length_cutoff-40,subset=train,lengths=20-24")["counts"]
    assert set(counts) <= {"train", *(f"train/length_{n}" for n in range(20, 25))}


def test_an_official_split(scan_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = real_data("scan/SCAN.tar.gz").parent.parent
    assert evaluate_main([f"run={scan_run}", "task.split=addprim_turn_left", f"paths.data={data}"]) == 0
    assert findings(scan_run, "scan-addprim_turn_left")["counts"]["test"] == 1208


def test_data_is_read_where_this_command_says(tmp_path: Path) -> None:
    """A run moved to another machine: its own paths are gone, for its training data as well."""
    raw = config_of(tmp_path / "there", *SMALL_CLEVR, *STEPS)
    assert run_job(raw, quiet=True) == 0
    shutil.rmtree(raw["paths"]["cache"])
    assert evaluate_main([f"run={run_folder(raw)}", f"paths.cache={tmp_path / 'here'}"]) == 0
    assert (tmp_path / "here").exists() and not Path(raw["paths"]["cache"]).exists()


def test_examples_of_the_training_set_are_counted(scan_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "scan-length_cutoff-30,subset=test_ood"
    assert evaluate_main([f"run={scan_run}", "task.length_cutoff=30", "subset=test/ood"]) == 0
    report = findings(scan_run, name)
    # 1,152 pairs are longer than 30 actions; of the 1,024 with at most 40, the run has trained on nine tenths.
    assert report["counts"]["test/ood"] == 1152
    assert 850 < report["seen_in_training"]["test/ood"] < 990
    assert "the run was trained on" in capsys.readouterr().err
    assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 0
    assert findings(scan_run, "scan-length_cutoff-40,subset=test_ood")["seen_in_training"] == {"test/ood": 0}


def test_an_unwritable_folder_is_one_sentence(scan_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scan_run / "evaluations"
    folder.rename(scan_run / "aside")
    folder.write_text("a file in the way")
    try:
        assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 1
        assert "cannot write" in capsys.readouterr().err
    finally:
        folder.unlink()
        (scan_run / "aside").rename(folder)


def test_sort_of_clevr_by_kind(tmp_path: Path) -> None:
    raw = config_of(tmp_path, *SMALL_CLEVR, *STEPS)
    assert run_job(raw, quiet=True) == 0
    run = run_folder(raw)
    assert evaluate_main([f"run={run}", "task.data_seed=5"]) == 0
    assert {"test/unary/accuracy", "test/accuracy"} <= set(findings(run, "sort_of_clevr,data_seed=5")["metrics"])


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        (["run=nowhere"], 2, "is no run folder"),
        (["task.split=simple"], 2, "run: missing"),
        (["{run}", "task.splitt=simple"], 2, "task.split"),
        (["{run}", "backbone.d_model=3"], 2, "backbone.d_model"),
        (["{run}", "task.split=simpel"], 2, "simple"),
        (["{run}", "lengths=long"], 2, "such as 30 or 24-30"),
        (["{run}", "lengths=30-24"], 2, "the smaller number first"),
        (["{run}", "lenghts=24"], 2, "nearest: lengths"),
        (["{run}", "backbone.d_model=3"], 2, "python evaluate.py --help"),
        (["."], 2, "write run=."),
        (["{run}", "checkpoint=first"], 2, "selected, last or best"),
        (["{run}", "checkpoint=best"], 1, "kept no best weights"),
        (["{run}", "subset=dev"], 1, "test/iid, test/ood"),
        (["{run}", "subset=test/ood", "lengths=3"], 1, "lengths go from 48 to 48"),
    ],
)
def test_mistakes_are_named(
    scan_run: Path, arguments: list[str], code: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate_main([f"run={scan_run}" if a == "{run}" else a for a in arguments]) == code
    assert expected in capsys.readouterr().err


def test_the_command_itself(scan_run: Path) -> None:
    done = run_command("evaluate.py", f"run={scan_run}", "subset=test/ood")
    assert done.returncode == 0, done.stderr
    assert "test/ood/sequence_accuracy" in done.stdout
    assert run_command("evaluate.py", "--help").returncode == 0
