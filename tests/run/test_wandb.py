"""wandb offline: one run per job, one continuous history after a resume, always closed."""

import json
import multiprocessing
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import wandb
from support.sample_report import write_report
from support.small_runs import SMALL_SCAN, config_of, run_job
from support.wandb_server import Arrived, server, wandb_command

import attnlab
from attnlab.config.job_config import job_config
from attnlab.config.run_identity import run_folder
from attnlab.config.schema import LoggerOptions
from attnlab.learn.training_module import TrainingModule
from attnlab.report.table_writers import log_report
from attnlab.run.run_folder import MetricsFile, RunError, RunFolder
from attnlab.run.wandb_mirror import WandbMirror, _remove_earlier, import_wandb, open_run, shortened

SMALL = (*SMALL_SCAN, "model=linear_l2_ortho", "train.checkpoint_every=2")


def offline_runs(folder: Path) -> list[Path]:
    return sorted((folder / "runs" / "wandb").glob("offline-run-*"))


def synced(runs: list[Path], arrived: Arrived) -> str:
    """The README's `wandb sync <runs>/wandb/offline-run-*`, to a server on this machine."""
    there = {"WANDB_API_KEY": "a" * 40, "WANDB_BASE_URL": arrived.url}
    return wandb_command("sync", *map(str, runs), folder=runs[0].parent.parent, **there)


def records(run: Path) -> list[dict]:
    """Everything an offline run recorded."""
    message = wandb_command("leet", "inspect", "--json", str(next(run.glob("*.wandb"))))
    return [json.loads(text) for text in message.splitlines() if text.strip().startswith("{")]


def at_the_end(run: Path) -> dict:
    """Configuration, tags and summary of an offline run, as a server would show them."""
    return json.loads(wandb_command("leet", "inspect", "--summary", "--json", str(next(run.glob("*.wandb")))))


def test_one_run_with_one_history_after_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = config_of(tmp_path, *SMALL, "train.max_steps=6", logger="wandb_offline")
    healthy = TrainingModule.training_step

    def broken(self: TrainingModule, batch: object, batch_idx: int) -> object:
        if self.global_step == 5:
            raise RuntimeError("a power cut")
        return healthy(self, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", broken)
    assert run_job(raw, quiet=True) == 1
    first = offline_runs(tmp_path)
    assert len(first) == 1
    monkeypatch.setattr(TrainingModule, "training_step", healthy)
    assert run_job(raw, quiet=True) == 0

    runs = offline_runs(tmp_path)
    assert len(runs) == 1
    run_id = (run_folder(raw) / "wandb_id.txt").read_text().strip()
    assert runs[0].name.endswith(run_id) and first[0].name.endswith(run_id)
    there = records(runs[0])
    history = {}
    for item in (record["history"]["item"] for record in there if record["type"] == "history"):
        assert item["_step"] not in history, "a step stands twice"
        history[item["_step"]] = item
    expected = [row for row in MetricsFile(run_folder(raw) / "metrics.csv").rows() if row[1].startswith("train/")]
    assert list(history) == [1, 2, 3, 4, 5, 6] == sorted({step for step, _, _ in expected})
    for step, name, value in expected:
        assert history[step][name] == pytest.approx(value, rel=1e-12)
    assert sum(record["type"] == "exit" for record in there) == 1
    about = next(record["run"] for record in there if record["type"] == "run")
    assert "scan-length_cutoff-40/linear_l2_ortho" in json.dumps(about)
    assert about["config"]["update"]["train"]["max_steps"] == 6
    with server() as arrived:
        assert "Finished syncing" in synced(runs, arrived)
        assert "No runs to sync" in synced(runs, arrived)
    assert [line["_step"] for _, line in sorted(arrived.history[run_id].items())] == [1, 2, 3, 4, 5, 6]
    sent = arrived.runs[run_id]
    assert sent["groupName"] == "scan-length_cutoff-40/linear_l2_ortho" and sent["jobType"] == "train"

    shown, result = at_the_end(runs[0])["summary"], RunFolder(run_folder(raw)).result()
    for key in ("seconds", "steps_per_second", "parameters", "state_size", "peak_memory_bytes"):
        assert shown[key] == pytest.approx(result[key])
    assert shown["test/ood/sequence_accuracy"] == result["metrics"]["test/ood/sequence_accuracy"]
    assert shown["selected_step"] == 6 and shown["selected_by"] == "last_step"


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "x/../../precious",
        "../../precious",
        "",
        "0123456",
        "0123456789",
        "0123ABCD",
        "[0-9a-f]*",
        "\xff",
        "a" * 999,
    ],
)
def test_an_id_that_is_none_removes_nothing(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    monkeypatch.setattr(wandb, "init", lambda **about: begun.append(about["id"]) or SimpleNamespace(dir=tmp_path / "a"))
    run, root = tmp_path / "runs" / "scan" / "seed0", tmp_path / "runs"
    others = [root / "wandb" / "offline-run-1-x", root / "wandb" / "offline-run-2-0123abcd", root / "precious"]
    for folder in (run, *others):
        folder.mkdir(parents=True)
        (folder / "kept").touch()
    (run / "wandb_id.txt").write_bytes(text.encode("latin-1"))
    open_run(run, root, LoggerOptions(name="wandb_offline"))
    assert all((folder / "kept").exists() for folder in (run, *others))
    drawn = (run / "wandb_id.txt").read_text()
    assert re.fullmatch("[0-9a-f]{8}", drawn) and begun == [drawn]
    open_run(run, root, LoggerOptions(name="wandb_offline"))
    assert begun == [drawn, drawn]


def test_an_id_that_was_copied_from_another_run_is_drawn_anew(tmp_path: Path) -> None:
    """The history of the other run stays; a restarted run keeps its id."""
    root, options = tmp_path / "runs", LoggerOptions(name="wandb_offline")
    first, second = (root / "scan" / f"seed{seed}" for seed in (0, 1))
    for folder in (first, second):
        folder.mkdir(parents=True)
    open_run(first, root, options).finish()
    shutil.copy(first / "wandb_id.txt", second)
    open_run(second, root, options).finish()
    ids = [(folder / "wandb_id.txt").read_text() for folder in (first, second)]
    assert ids[0] != ids[1]
    open_run(first, root, options).finish()
    assert (first / "wandb_id.txt").read_text() == ids[0]
    assert sorted(folder.name[-8:] for folder in (root / "wandb").glob("offline-run-*")) == sorted(ids)


def test_what_lies_elsewhere_is_never_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A link at the path of an earlier part, or of the whole wandb folder, stays; earlier parts are replaced."""
    precious, root = tmp_path / "precious" / "offline-run-1-0123abcd", tmp_path / "runs"
    (root / "wandb").mkdir(parents=True)
    earlier, link = (root / "wandb" / f"offline-run-{number}-0123abcd" for number in (2, 3))
    for folder in (precious, earlier):
        folder.mkdir(parents=True)
        (folder / "kept").touch()
    link.symlink_to(precious)
    _remove_earlier(root, "0123abcd")
    assert (precious / "kept").exists() and link.is_symlink() and not earlier.exists()
    assert f"note: {link} is a link" in capsys.readouterr().err
    shutil.rmtree(root / "wandb")
    (root / "wandb").symlink_to(precious.parent)
    _remove_earlier(root, "0123abcd")
    assert (precious / "kept").exists()
    assert "is a link" in capsys.readouterr().err
    # the user may choose a link as the folder of runs
    (tmp_path / "disk" / "wandb" / earlier.name).mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "disk")
    _remove_earlier(tmp_path / "linked", "0123abcd")
    assert not (tmp_path / "disk" / "wandb" / earlier.name).exists()


def test_long_names_and_tags_fit_and_stay_different(tmp_path: Path) -> None:
    """128 characters of names of runs and groups, 64 of a tag: the server refuses longer ones when they arrive."""
    texts = [f"{'a' * 40}{middle}{'z' * 200} seed=3" for middle in "bcd"]
    for folder, text in zip((tmp_path / name for name in "bcd"), texts, strict=True):
        folder.mkdir()
        options = LoggerOptions(name="wandb_offline")
        open_run(folder, tmp_path / "runs", options, name=text, group=text, tags=[text, "short"]).finish()
    kept = [next(each["run"] for each in records(run) if each["type"] == "run") for run in offline_runs(tmp_path)]
    for key, longest in (("display_name", 128), ("run_group", 128)):
        assert len({run[key] for run in kept}) == 3 and {len(run[key]) for run in kept} == {longest}
        assert all(run[key].startswith("a" * 40) and run[key].endswith("z seed=3") for run in kept)
    assert {len(run["tags"][0]) for run in kept} == {64} and len({run["tags"][0] for run in kept}) == 3
    assert shortened("a" * 64, 64) == "a" * 64 and {run["tags"][1] for run in kept} == {"short"}


def test_what_runs_are_compared_by(tmp_path: Path) -> None:
    """Group, tags, the setting that seeds share; best of validation, last of everything else."""
    folder, names = (
        tmp_path / "run",
        ("d_model=96", "d_feed_forward=96", "n_layers=4", "embedding=xavier", "dropout=0.2"),
    )
    folder.mkdir()
    long = [f"backbone.{name}" for name in names]
    raw = config_of(tmp_path, "task=scan", "model=linear_l2_ortho", *long, "seed=3", logger="wandb_offline")
    rows = [(1, "val/accuracy", 0.2), (1, "val/loss", 2.0), (2, "val/accuracy", 0.6), (2, "val/loss", 1.0)]
    mirror = WandbMirror(folder, job_config(raw), rows, figures={})
    mirror.log(3, {"val/accuracy": 0.4, "val/loss": 1.5, "train/loss": 1.0, "test_curve/accuracy": 0.1})
    mirror.finish(0)
    run = offline_runs(tmp_path)[0]
    result, about = at_the_end(run), next(record["run"] for record in records(run) if record["type"] == "run")
    assert about["run_group"] == "scan-length_cutoff-26/linear_l2_ortho" and about["job_type"] == "train"
    tag = run_folder(raw).parent.name
    assert result["config"]["setting"] == f"scan-length_cutoff-26/linear_l2_ortho/{tag}" and len(tag) > 64
    tags = {"scan", "linear_l2_ortho", "normalization=l2", "ortho", f"attnlab={attnlab.__version__}"}
    assert tags <= set(result["tags"])
    assert all(len(word) <= 64 for word in result["tags"]) and shortened(tag, 64) in result["tags"]
    assert result["summary"]["val/accuracy"] == {"max": 0.6} and result["summary"]["val/loss"] == {"min": 1.0}
    assert result["summary"]["train/loss"] == 1.0 and result["summary"]["test_curve/accuracy"] == 0.1


def test_a_report_is_a_run_with_tables_and_figures(tmp_path: Path) -> None:
    folder, options = write_report(tmp_path / "reports" / "table2"), LoggerOptions(name="wandb_offline")
    log_report(folder, options, tmp_path / "runs")
    text = log_report(folder, options, tmp_path / "runs")
    run = offline_runs(tmp_path)[-1]
    # written again, the report replaces the run of before
    assert len(offline_runs(tmp_path)) == 1 and f"wandb sync {run}" in text
    about = next(record["run"] for record in records(run) if record["type"] == "run")
    assert about["run_group"] == about["job_type"] == "report"
    assert about["display_name"] == "park2024/table2_sort_of_clevr_small"
    logged = at_the_end(run)["summary"]
    assert (logged["table"]["nrows"], logged["seeds"]["nrows"], logged["comparisons"]["nrows"]) == (6, 18, 2)
    assert logged["figures/bars"]["_type"] == "image-file" and (run / "files" / logged["figures/bars"]["path"]).exists()
    table = json.loads((run / "files" / logged["table"]["path"]).read_text())
    line = dict(zip(table["columns"], table["data"][3], strict=True))
    assert line["row"] == "linear_l2_ortho" and line["mean"] == pytest.approx(70.8)
    assert (line["n"], line["best_seed"], line["published"]) == (2, 1, 73.0)
    assert dict(zip(table["columns"], table["data"][5], strict=True))["published_text"] == "below 46.9"
    assert logged["ours/linear_l2_ortho/ternary"] == pytest.approx(70.8) and "ours/vanilla/unary" not in logged
    with server() as arrived:
        assert "Finished syncing" in synced([run], arrived)
    assert len(arrived.artifacts) == 3 and any(name.startswith("media/images/figures/bars") for name in arrived.files)


def test_a_report_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"report\.json cannot be read .*report\.py experiment="):
        log_report(tmp_path, LoggerOptions(name="wandb_offline"), tmp_path / "runs")


def test_temporary_folders_do_not_stay_after_a_kill(tmp_path: Path) -> None:
    """wandb makes them when it is imported; the next process removes those of processes that are gone."""
    code = "import sys; from pathlib import Path; from attnlab.run.wandb_mirror import import_wandb\n"
    code += "import_wandb(Path(sys.argv[1])); print('there', flush=True); sys.stdin.read()"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words, there = [sys.executable, "-c", code, str(tmp_path)], os.environ | {"TMPDIR": str(temporary)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = []
    for folders in (1, 2, 2):
        processes.append(subprocess.Popen(words, env=there, **pipes))
        assert processes[-1].stdout.readline() == b"there\n"
        assert len(list((tmp_path / "wandb").iterdir())) == folders and not list(temporary.iterdir())
        if folders == 2:
            processes[-1].kill()
            processes[-1].communicate()
    processes[0].communicate()
    [left] = (tmp_path / "wandb").iterdir()
    assert left.name.startswith("tmp-")


def test_temporary_folders_do_not_stay_after_a_worker_process(tmp_path: Path) -> None:
    """A worker of a sweep ends without the functions of atexit."""
    worker = multiprocessing.get_context("spawn").Process(target=import_wandb, args=(tmp_path,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0 and not list((tmp_path / "wandb").iterdir())


def test_leet_shows_the_runs_of_the_folder(tmp_path: Path) -> None:
    """`wandb leet` of the README, in a separate terminal."""
    raw = config_of(tmp_path, *SMALL, "train.max_steps=2", logger="wandb_offline")
    assert run_job(raw, quiet=True) == 0
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (40, 120))
    line = [str(Path(sys.executable).parent / "wandb"), "leet", str(tmp_path / "runs" / "wandb")]
    environment = os.environ | {"TERM": "xterm-256color"}
    viewer = subprocess.Popen(line, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True)
    seen, deadline = b"", time.monotonic() + 60
    try:
        while b"offline-run-" not in seen and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 65536)
    finally:
        # `wandb` starts the viewer as a separate process, which would outlive it.
        os.killpg(viewer.pid, signal.SIGKILL)
        viewer.wait()
        os.close(inside)
        os.close(terminal)
    assert b"offline-run-" in seen and b"Runs" in seen


def test_a_wandb_that_cannot_start_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import wandb

    def refuse(**kwargs: object) -> None:
        raise OSError("no service")

    monkeypatch.setattr(wandb, "init", refuse)
    raw = config_of(tmp_path, *SMALL, "train.max_steps=2", logger="wandb_offline")
    assert run_job(raw, quiet=True) == 0
    assert "wandb did not start (no service)" in capsys.readouterr().err
