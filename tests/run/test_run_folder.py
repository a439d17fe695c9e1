"""The run folder: repeated, changed, damaged, locked, made by another version."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from support.dev_full import needs_dev_full
from support.small_runs import SMALL_CLEVR, SMALL_SCAN, checked, config_of, run_job

from attnlab.config.run_identity import run_folder
from attnlab.data.task_spec import SEQUENCE_METRICS
from attnlab.learn.weight_files import SaveError, save_atomically
from attnlab.run.build_runtime import prepare
from attnlab.run.run_folder import MetricsFile, RunError, write_text
from attnlab.tasks.base import make_task

SMALL = (*SMALL_SCAN, "model=linear", "train.max_steps=3")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one finished run."""
    folder = tmp_path_factory.mktemp("finished")
    assert run_job(config_of(folder, *SMALL), quiet=True) == 0
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, to be spoilt."""
    shutil.copytree(finished, tmp_path / "copy")
    return tmp_path / "copy"


def test_a_result_has_every_key(finished: Path) -> None:
    folder = run_folder(config_of(finished, *SMALL))
    result = json.loads((folder / "result.json").read_text())
    assert set(result) >= {
        "metrics", "counts", "selection", "seconds", "steps_per_second", "peak_memory_bytes", "parameters",
        "state_size", "versions", "git", "data", "hardware", "command",
    }  # fmt: skip
    assert result["selection"] == {"rule": "last_step", "step": 3}
    assert result["counts"]["test/iid"] == 2078 and result["counts"]["test/ood"] == 128
    assert result["counts"]["test/ood/length_48"] == 128
    for subset in ("iid", "ood"):
        for name in SEQUENCE_METRICS:
            assert 0.0 <= result["metrics"][f"test/{subset}/{name}"] <= 1.0
    assert json.loads((folder / "status.json").read_text())["state"] == "finished"


def test_metrics_file_holds_every_step(finished: Path) -> None:
    rows = MetricsFile(run_folder(config_of(finished, *SMALL)) / "metrics.csv").rows()
    assert [step for step, name, _ in rows if name == "train/loss"] == [1, 2, 3]
    assert {"train/lr", "train/gradient_norm", "test/ood/length_48/sequence_accuracy"} <= {name for _, name, _ in rows}


def test_repeating_a_finished_run_shows_its_result(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    before = (run_folder(raw) / "result.json").read_bytes()
    assert run_job(raw, quiet=False) == 0
    assert "finished before" in capsys.readouterr().out
    assert (run_folder(raw) / "result.json").read_bytes() == before


def test_killed_between_result_and_status_it_counts_as_finished(copy: Path) -> None:
    raw = config_of(copy, *SMALL)
    status = run_folder(raw) / "status.json"
    status.write_text(status.read_text().replace('"finished"', '"running"'))
    assert run_job(raw, quiet=True) == 0
    assert json.loads(status.read_text())["state"] == "finished"


def test_a_changed_default_under_the_same_tag_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    file = run_folder(raw) / "config.yaml"
    file.write_text(file.read_text().replace("clip_norm: 5.0", "clip_norm: 4.0"))
    assert run_job(raw, quiet=True) == 1
    assert "optim.clip_norm: 4.0 -> 5.0" in capsys.readouterr().err


def unfinish(raw: dict) -> Path:
    """Take the result away, so that the run is resumed."""
    folder = run_folder(raw)
    (folder / "result.json").unlink()
    return folder


def test_a_checkpoint_cut_short_is_one_sentence(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    checkpoint = unfinish(raw) / "last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    before = {
        path: path.read_bytes() for path in run_folder(raw).iterdir() if path.name in ("last.ckpt", "metrics.csv")
    }
    assert run_job(raw, quiet=True) == 1
    message = capsys.readouterr().err
    assert "last.ckpt is cut short or damaged" in message and "repeat the training command" in message
    assert {path: path.read_bytes() for path in before} == before


def test_a_folder_without_its_config_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    (run_folder(raw) / "config.yaml").unlink()
    assert run_job(raw, quiet=True) == 1
    assert "but no config.yaml" in capsys.readouterr().err
    assert not (run_folder(raw) / "config.yaml").exists()


def test_a_lost_checkpoint_is_said_and_the_curve_kept(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    folder = unfinish(raw)
    (folder / "last.ckpt").unlink()
    before = (folder / "metrics.csv").read_text()
    assert run_job(raw, quiet=True) == 0
    assert "had reached step 3" in capsys.readouterr().err
    assert (folder / "metrics.csv.old").read_text() == before == (folder / "metrics.csv").read_text()


def test_a_removed_curve_is_said(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    (unfinish(raw) / "metrics.csv").unlink()
    assert run_job(raw, quiet=True) == 0
    assert "metrics.csv is gone: its curves begin at step 3" in capsys.readouterr().err
    assert {step for step, _, _ in MetricsFile(run_folder(raw) / "metrics.csv").rows()} == {3}


def test_another_version_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    status = unfinish(raw) / "status.json"
    status.write_text(json.dumps(json.loads(status.read_text()) | {"attnlab": "0.0.1"}))
    assert run_job(raw, quiet=True) == 1
    assert "begun by attnlab 0.0.1" in capsys.readouterr().err


def test_other_data_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    status = unfinish(raw) / "status.json"
    there = json.loads(status.read_text())
    status.write_text(json.dumps(there | {"data": there["data"] | {"hash": "0" * 16}}))
    assert run_job(raw, quiet=True) == 1
    assert "restore that data" in capsys.readouterr().err


def test_another_commit_is_said_and_recorded(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    status = unfinish(raw) / "status.json"
    former = {"commit": "f" * 40, "dirty": False}
    status.write_text(json.dumps(json.loads(status.read_text()) | {"commits": [former]}))
    assert run_job(raw, quiet=True) == 0
    assert "f" * 10 in capsys.readouterr().err
    assert json.loads((run_folder(raw) / "result.json").read_text())["git"]["earlier"] == [former]


def test_a_second_process_is_refused(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = config_of(copy, *SMALL)
    with FileLock(unfinish(raw) / ".lock"):
        assert run_job(raw, quiet=True) == 1
    assert "another process" in capsys.readouterr().err


def test_an_unwritable_place_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    assert run_job(config_of(tmp_path, *SMALL), quiet=True) == 1
    message = capsys.readouterr().err
    assert "cannot create the run folder" in message and "paths.runs" in message


@needs_dev_full
def test_a_full_disk_is_one_sentence() -> None:
    with pytest.raises(RunError, match="No space left on device"):
        MetricsFile(Path("/dev/full")).log(1, {"train/loss": 1.0})


def test_writing_is_all_or_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_text(file, "old")

    def fail(part: Path) -> None:
        part.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(SaveError, match=r"No space left on device.*repeat the command"):
        save_atomically(fail, file)
    assert file.read_text() == "old" and list(tmp_path.iterdir()) == [file]


def test_a_line_cut_by_a_kill_is_dropped(tmp_path: Path) -> None:
    file = MetricsFile(tmp_path / "metrics.csv")
    file.keep_until(-1)
    file.log(1, {"train/loss": 0.1 + 0.2})
    file.path.write_text(file.path.read_text() + "2,train/lo")
    assert file.rows() == [(1, "train/loss", 0.1 + 0.2)]
    assert file.keep_until(1) == [(1, "train/loss", 0.1 + 0.2)]
    file.log(2, {"train/loss": 1.0})
    assert file.rows() == [(1, "train/loss", 0.1 + 0.2), (2, "train/loss", 1.0)]


def test_seed_never_changes_data(tmp_path: Path) -> None:
    for small in (SMALL_SCAN, SMALL_CLEVR):
        hashes = set()
        for seed in (0, 1):
            config = checked(config_of(tmp_path, *small, f"seed={seed}"))
            hashes.add(prepare(make_task(config.task), config.paths).data_hash())
        assert len(hashes) == 1
        other = checked(config_of(tmp_path, *small, "task.data_seed=7"))
        assert prepare(make_task(other.task), other.paths).data_hash() not in hashes


def test_checkpoints_load_without_pickle(finished: Path) -> None:
    saved = torch.load(run_folder(config_of(finished, *SMALL)) / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 3
