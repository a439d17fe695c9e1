"""experiments/campaign.py: the queue of claims, archives, and real runs that are killed, paused and resumed."""

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.small_runs import ROOT
from support.written_runs import a_run

from attnlab.config.job_config import compose_config
from attnlab.data.files.fetch import DataError
from attnlab.report.cli import report_main
from attnlab.report.runs.run_archives import LOCK, unpack

PRESET = """# @package _global_
# Claim: none; for a test
defaults:
  - override /task: scan
  - override /model: linear
paths: {runs: experiments/runs/claims/brief}
backbone: {d_model: 16, n_heads: 2, n_layers: 1, d_feed_forward: 16, dropout: 0.1}
train: {max_steps: 120, batch_size: 16, checkpoint_every: 10, log_every: 10}
trainer: {device: cpu, threads: 1}
hydra:
  mode: MULTIRUN
  sweeper: {params: {model: "linear,linear_l2", seed: "3,4"}}
report:
  title: a test
  columns: {ood: test/ood/sequence_accuracy}
  hypotheses:
    - {row: linear_l2, than: linear, column: ood}
"""
WORDS = ("experiment=claims/brief", "logger=csv")
SCRIPTS = ("experiments/campaign.py", "experiments/background")


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """A repository with this package and one claim of four runs; a campaign that still runs there is stopped."""
    result = tmp_path / "checkout"
    for name in ("src", "conf", *SCRIPTS, "experiments/published", "train.py", "report.py"):
        target = result / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    shutil.copy(ROOT / ".gitignore", result)
    (result / "conf/experiment/claims/brief.yaml").write_text(PRESET)
    git(result, "init", "--quiet")
    commit(result)
    yield result
    if (result / "experiments/.campaign/lock").exists():
        command(result, "pause")


def git(checkout: Path, *words: str) -> None:
    author = ("-c", "user.name=attnlab", "-c", "user.email=attnlab@localhost")
    subprocess.run(["git", *author, *words], cwd=checkout, check=True, capture_output=True)


def keep_priority(checkout: Path) -> None:
    """Train at the priority of other tests, beside which runs would wait for minutes."""
    file = checkout / "experiments/background/worktrees.py"
    file.write_text(file.read_text().replace("    os.nice(19)\n", "    return\n"))
    commit(checkout)


def commit(checkout: Path) -> None:
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--message", "a claim")


@pytest.fixture
def campaign(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The parts of the campaign of a checkout, with the folders of that checkout."""
    monkeypatch.syspath_prepend(str(checkout / "experiments"))
    monkeypatch.chdir(checkout)
    former = {name: sys.modules.pop(name) for name in parts_of_campaigns()}
    importlib.import_module("campaign")
    yield importlib.import_module("background")
    for name in parts_of_campaigns():
        del sys.modules[name]
    sys.modules.update(former)


def parts_of_campaigns() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] in ("campaign", "background")]


def command(checkout: Path, *words: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "experiments/campaign.py", *words]
    return subprocess.run(line, cwd=checkout, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_claim_is_declared_once_it_composes_and_never_changed_after_its_first_run(
    checkout: Path, campaign: ModuleType
) -> None:
    presets = checkout / "conf/experiment/claims"
    others = {"bad": PRESET.replace("linear_l2", "linaer"), "elsewhere": PRESET, "brief": PRESET.replace("120", "130")}
    for name, text in others.items():
        (presets / f"{name}.yaml").write_text(text)
    commit(checkout)
    (presets / "other.yaml").write_text(PRESET)
    for name, sentence in {
        "other": "commit it first",
        "breif": "nearest: brief",
        "bad": "linaer",
        "elsewhere": "its preset needs paths",
    }.items():
        with pytest.raises(campaign.places.CampaignError, match=sentence):
            campaign.queue.declare([name], "HEAD")
    assert not campaign.queue.read_queue()
    campaign.queue.declare(["brief"], "HEAD")
    assert campaign.runs.cells(campaign.queue.read_queue())[0].steps == 130
    (presets / "brief.yaml").write_text(PRESET)
    with pytest.raises(campaign.places.CampaignError, match="commit it, then"):
        campaign.queue.require_unchanged(campaign.queue.read_queue())
    commit(checkout)
    campaign.queue.declare(["brief"], "HEAD")
    cells = campaign.runs.cells(campaign.queue.read_queue())
    assert [(cell.seed, cell.model, cell.steps) for cell in cells] == [
        (seed, model, 120) for seed in (3, 4) for model in ("linear", "linear_l2")
    ]
    write_run(campaign, checkout, cells[0])
    (presets / "brief.yaml").write_text(PRESET + "# measured: a lot\n")
    campaign.queue.require_unchanged(campaign.queue.read_queue())
    pinned = "model: {attention_bias: null, normalization: {eps: null}}\nbackbone: {initialization: normal, "
    (presets / "brief.yaml").write_text(PRESET.replace("backbone: {", pinned))
    campaign.queue.require_unchanged(campaign.queue.read_queue())
    (presets / "brief.yaml").write_text(PRESET.replace("120", "130"))
    with pytest.raises(campaign.places.CampaignError, match="new name"):
        campaign.queue.require_unchanged(campaign.queue.read_queue())
    commit(checkout)
    with pytest.raises(campaign.places.CampaignError, match="new name"):
        campaign.queue.declare(["brief"], "HEAD")


@pytest.mark.slow
def test_a_claim_waits_after_two_failed_runs(campaign: ModuleType) -> None:
    campaign.queue.declare(["brief"], "HEAD")
    cells = campaign.runs.cells(campaign.queue.read_queue())
    assert campaign.loop.next_cell(set(), []) == cells[0] and campaign.loop.next_cell(set(cells[:1]), []) == cells[1]
    assert campaign.loop.next_cell(set(cells[:2]), cells[1:2]) == cells[2]
    assert campaign.loop.next_cell(set(cells[:2]), []) is None


def write_run(campaign: ModuleType, checkout: Path, cell: Any, diverged: bool = False) -> None:
    """The folder of a run of a claim, without training."""
    raw = compose_config([*WORDS, *cell.words], checkout / "conf")
    raw.pop("report")
    more = {"status": {"reason": "NonFiniteLoss: at step 7"}} if diverged else {}
    a_run(campaign.places.RUNS / cell.folder, raw, state="failed" if diverged else "finished", **more)


@pytest.mark.slow
def test_archives_give_the_same_reports(checkout: Path, campaign: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.queue.declare(["brief"], "HEAD")
    cells = campaign.runs.cells(campaign.queue.read_queue())
    # both runs of seed 3, one of them diverged, and one of seed 4
    for cell, diverged in zip(cells, (False, True, False), strict=False):
        write_run(campaign, checkout, cell, diverged)
    assert [cell.outcome() for cell in cells] == ["finished", "diverged", "finished", None]
    status = campaign.places.RUNS / cells[2].folder / "status.json"
    ended = json.loads(status.read_text())
    status.write_text(json.dumps(ended | {"state": "running", "pid": os.getpid()}))
    assert cells[2].outcome() is None
    status.write_text(json.dumps(ended))
    reported = []
    monkeypatch.setattr(campaign.archives, "child", lambda commit, words, lock: reported.append(words))
    campaign.archives.archive_seeds(cells, None)
    (campaign.places.REPORTS / "brief").mkdir(parents=True)
    (campaign.places.REPORTS / "brief/report.json").write_text("{}")
    campaign.archives.archive_seeds(cells, None)
    (archive,) = campaign.places.MEASURED.rglob("*.tar.xz")
    # on a pause, also the run of seed 4; the archive of all its runs replaces it
    campaign.archives.archive_unfinished(cells)
    (part,) = campaign.places.MEASURED.rglob("*_unfinished.tar.xz")
    assert part.read_bytes() == campaign.archives.packed([cells[2].folder])
    shutil.rmtree(campaign.places.RUNS / cells[2].folder)
    assert campaign.archives.restore() == 1 and cells[2].outcome() == "finished"
    campaign.archives.archive_seeds([cells[2]], None)
    assert not part.exists()
    campaign.archives.archive_of("brief", 4).unlink()
    reported.pop()
    assert archive.parts[-2:] == ("brief", "seed3.tar.xz") and reported == [("report.py", "experiment=claims/brief")]
    assert archive.read_bytes() == campaign.archives.packed(sorted(cell.folder for cell in cells[:2]))
    with tarfile.open(archive) as tar:
        statuses = [json.load(tar.extractfile(name)) for name in tar.getnames() if name.endswith("status.json")]
    assert len(statuses) == 2 and not any({"pid", "host"} & set(status) for status in statuses)

    # the same table from the archive, from the folders, from both, and from the restored folders
    tables = []
    for place in ("measured/claims", "measured/claims/*/seed3.tar.xz", "runs", "*"):
        assert report_main([f"runs=experiments/{place}", "seed=3", "out=out"]) == 0
        tables.append((checkout / "out/seeds.csv").read_text())
    shutil.rmtree(campaign.places.RUNS)
    assert campaign.archives.restore() == 2 and campaign.archives.restore() == 0
    assert [cell.outcome() for cell in cells] == ["finished", "diverged", None, None]
    assert report_main(["runs=experiments/runs", "out=out"]) == 0
    tables.append((checkout / "out/seeds.csv").read_text())
    assert len(set(tables)) == 1 and "50.0" in tables[0]
    assert not list(campaign.places.RUNS.glob(".unpacked-*"))
    archive.write_bytes(archive.read_bytes()[:-100])
    shutil.rmtree(campaign.places.RUNS)
    with pytest.raises(campaign.places.CampaignError, match="cut short"):
        campaign.archives.restore()


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        (
            "experiments/measured/claims/queue.json",
            '{\n<<<<<<< HEAD\n "brief": "1"\n=======\n}\n>>>>>>> b',
            "queue.json",
        ),
        ("experiments/measured/claims/queue.json", b"\xff\xfe", "queue.json"),
        ("experiments/measured/claims/queue.json", '["brief"]', "queue.json"),
        ("conf/experiment/claims/brief.yaml", "<<<<<<< HEAD\n" + PRESET, "brief.yaml"),
        ("conf/experiment/claims/brief.yaml", "", "brief.yaml"),
        ("experiments/.campaign/{commit}-brief.json", '[{"claim": "brief"', "-brief.json"),
        ("experiments/.campaign/{commit}-brief.json", '[{"claim": "brief"}]', "-brief.json"),
        ("experiments/measured/claims/brief/seed3.tar.xz", "no archive", "seed3.tar.xz"),
    ],
)
def test_a_damaged_file_of_the_campaign_is_named(
    file: str, content: str | bytes, named: str, checkout: Path, campaign: ModuleType,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    head = campaign.places.git("rev-parse", "HEAD")
    for path, text in (("measured/claims/queue.json", {"brief": head}), (f".campaign/{head[:12]}-brief.json", [])):
        (checkout / "experiments" / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / "experiments" / path).write_text(json.dumps(text))
    monkeypatch.setattr(sys.modules["campaign"], "link_data", lambda: pytest.fail("it goes on"))
    damaged = checkout / file.format(commit=head[:12])
    damaged.parent.mkdir(parents=True, exist_ok=True)
    damaged.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert sys.modules["campaign"].main(["start"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("campaign.py: ") and named in error and error.count("\n") == 1, error


def test_files_are_written_by_way_of_others_outside_of_the_tracked_folders(
    campaign: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []
    monkeypatch.setattr(Path, "replace", lambda part, path: written.append((part, path)))
    campaign.archives.archive_of("brief", 3).parent.mkdir(parents=True)
    campaign.places.replace(campaign.archives.archive_of("brief", 3), b"")
    ((part, path),) = written
    assert (
        path == campaign.archives.archive_of("brief", 3) and part.is_relative_to(campaign.places.WORK) and part.exists()
    )
    # of a killed process, also of an earlier version; this one lives
    left = [
        campaign.places.WORK / "seed3.tar.xz.4194305.part",
        campaign.archives.archive_of("brief", 3).with_suffix(".xz.4194305.part"),
    ]
    for each in left:
        each.touch()
    campaign.places.remove_parts()
    assert part.exists() and not any(each.exists() for each in left)


def test_the_campaign_has_the_lowest_priority(checkout: Path) -> None:
    code = """
import os, pathlib
from background.worktrees import take_lowest_priority
take_lowest_priority()
print(os.getpriority(os.PRIO_PROCESS, 0))
group = pathlib.Path("/proc/self/autogroup")
print(group.read_text() if group.exists() else "nice 19")
"""
    line, environment = (
        [sys.executable, "-c", code],
        os.environ | {"PYTHONPATH": f"{checkout / 'experiments'}:{checkout / 'src'}"},
    )
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environment, start_new_session=True)
    assert done.stdout.startswith("19\n") and "nice 19" in done.stdout


@pytest.mark.parametrize("name", ["../up/config.yaml", "/tmp/x/config.yaml", "run/last.ckpt", "config.yaml"])
def test_an_archive_of_anything_else_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("seed: 0")
    with tarfile.open(tmp_path / "a.tar.xz", "w:xz") as tar:
        tar.addfile(
            tar.gettarinfo(str(tmp_path / "file"), arcname=name) if name[0] != "/" else _named(tar, tmp_path, name)
        )
    with pytest.raises(DataError, match="no file of a run folder"):
        unpack([tmp_path / "a.tar.xz"], tmp_path / "into")
    assert [path.name for path in (tmp_path / "into").iterdir()] == [LOCK]


def _named(tar: tarfile.TarFile, folder: Path, name: str) -> tarfile.TarInfo:
    """A member with an absolute name, which tarfile itself makes relative."""
    result = tar.gettarinfo(str(folder / "file"))
    result.name = name
    return result


@pytest.mark.slow
def test_killed_and_paused_runs_end_as_uninterrupted_ones(checkout: Path, tmp_path: Path) -> None:
    runs = checkout / "experiments/runs/claims/brief"
    keep_priority(checkout)
    begun = command(checkout, "start", "brief")
    assert begun.returncode == 0 and "running in the background; runs left: 4" in begun.stdout, begun.stderr
    waited(lambda: len(list(runs.rglob("last.ckpt"))) == min(2, len(os.sched_getaffinity(0))))
    os.kill(int((checkout / "experiments/.campaign/lock").read_text()), signal.SIGKILL)
    assert "running in the background" in command(checkout, "start").stdout
    assert "the campaign is running" in command(checkout, "start").stdout
    waited(lambda: any(runs.rglob("result.json")))
    assert "paused" in command(checkout, "pause").stdout
    assert "not running" in command(checkout, "status").stdout
    states = [json.loads(file.read_text())["state"] for file in runs.rglob("status.json")]
    assert "running" not in states and not (checkout / "experiments/measured/claims/brief/seed4.tar.xz").exists()
    assert command(checkout, "start").returncode == 0
    waited(lambda: "ended; failed runs: 0" in (checkout / "experiments/.campaign/log.txt").read_text())
    shown = command(checkout, "status").stdout
    assert "4/4" in shown and "2/2" in shown and "not running" in shown
    assert "a test" in (checkout / "experiments/reports/claims/brief/table.md").read_text()

    plain = [
        sys.executable,
        "train.py",
        *WORDS,
        f"paths.runs={tmp_path / 'plain'}",
        f"paths.cache={tmp_path / 'cache'}",
    ]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(plain, cwd=checkout, check=True, capture_output=True, env=environment)
    expected = sorted((tmp_path / "plain").rglob("metrics.csv"))
    assert len(expected) == 4
    for file in expected:
        assert (runs / file.relative_to(tmp_path / "plain")).read_bytes() == file.read_bytes(), file


SOURCE = PRESET.replace("max_steps: 120", "max_steps: 20").replace("linear,linear_l2", "linear").replace("3,4", "3")
SOURCE = SOURCE.partition("  hypotheses:")[0] + 'optim: {lr: "${choose:${model.name},{linear:1e-3},2e-3}"}\n'
TUNED = SOURCE.replace("claims/brief", "claims/tuned").replace("max_steps: 20", "max_steps: 10")
TUNED += 'from_run: "${run_of:claims/brief,${model.name},${seed},experiments/runs/claims/brief}"\n'


@pytest.fixture
def tuned(checkout: Path, campaign: ModuleType) -> ModuleType:
    """The campaign of two claims of a run each: `tuned` begins with the weights of `brief`, and is the first one."""
    for name, text in {"brief": SOURCE, "tuned": TUNED}.items():
        (checkout / f"conf/experiment/claims/{name}.yaml").write_text(text)
    keep_priority(checkout)
    with pytest.raises(campaign.places.CampaignError, match="which no claim of the queue has"):
        campaign.queue.declare(["tuned"], "HEAD")
    campaign.queue.declare(["tuned", "brief"], "HEAD")
    campaign.worktrees.link_data()
    return campaign


@pytest.mark.slow
def test_runs_that_begin_with_others_wait_and_have_them_trained_again_where_weights_are_missing(
    checkout: Path, tuned: ModuleType
) -> None:
    begun, source = tuned.runs.cells(tuned.queue.read_queue())
    assert begun.from_run == source.folder and source.from_run is None
    assert tuned.loop.next_cell(set(), []) == source and tuned.loop.next_cell({source}, [source]) is None
    assert "they begin with: 1" in command(checkout, "status").stdout
    assert command(checkout, "run").returncode == 0
    log, archive = checkout / "experiments/.campaign/log.txt", tuned.archives.archive_of("brief", 3)
    assert begun.outcome() == "finished" and "again" not in log.read_text()
    former, packed = (begun.path / "metrics.csv").read_bytes(), archive.read_bytes()
    files = [file.name for file in source.path.iterdir() if file.name != ".lock"]

    # another machine has the archive of the first claim alone
    shutil.rmtree(tuned.places.RUNS)
    tuned.archives.archive_of("tuned", 3).unlink()
    assert tuned.archives.restore() == 1 and not tuned.weights.has_weights(source.path)
    again = tuned.loop.next_cell(set(), [])
    assert again != source and again.path != source.path == again.target
    assert tuned.loop.next_cell({again}, [again]) is None
    assert "they begin with" not in command(checkout, "status").stdout
    assert command(checkout, "run").returncode == 0
    assert "finished: brief model=linear seed=3 (again, for its weights)" in log.read_text()
    assert "other numbers" not in log.read_text() and not again.path.exists()
    assert sorted(file.name for file in source.path.iterdir() if file.name != ".lock") == sorted(files)
    assert (begun.path / "metrics.csv").read_bytes() == former and archive.read_bytes() == packed
    assert tuned.archives.restore() == 0 and tuned.loop.next_cell(set(), []) is None


@pytest.mark.slow
def test_a_run_that_is_trained_again_with_other_numbers_keeps_the_former_ones(tuned: ModuleType) -> None:
    begun, source = tuned.runs.cells(tuned.queue.read_queue())
    for folder in (source.path, tuned.weights.AGAIN / source.folder):
        folder.mkdir(parents=True)
        (folder / "metrics.csv").write_text(str(folder))
        (folder / "result.json").write_text('{"selection": {"rule": "best_validation"}}')
    again = tuned.loop.next_cell(set(), [])
    weights = [again.path / name for name in ("last.ckpt", "best_step10.pt")]
    for file in weights:
        file.touch()
    # of a killed process that had begun to move them
    weights[1].rename(source.path / "best_step10.pt")
    tuned.weights.remove_emptied(again)
    assert not again.path.exists() and again.outcome() is None and tuned.loop.next_cell(set(), []) == again

    shutil.copytree(source.path, again.path)
    (again.path / "metrics.csv").write_text("other")
    weights[0].touch()
    tuned.weights.remove_emptied(again)
    tuned.weights.take_weights(again)
    assert "it has other numbers" in tuned.places.LOG.read_text() and tuned.loop.next_cell(set(), []) == begun
    assert (source.path / "metrics.csv").read_text() == str(source.path) and again.outcome() == "finished"


PILOT = """# @package _global_
defaults:
  - /experiment/claims/brief
  - _self_
paths: {runs: experiments/runs/pilots/brief}
train: {max_steps: 20}
hydra: {sweeper: {params: {model: linear, optim.lr: "1e-3,1e-2", seed: "901"}}}
report: {rows: [model, optim.lr], hypotheses: []}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("default_signals")
def test_a_pilot_is_trained_from_the_checkout_and_archived_once_complete(checkout: Path) -> None:
    script, preset = checkout / "experiments/campaign.py", checkout / "conf/experiment/claims/pilots/brief.yaml"
    keep_priority(checkout)
    runs, archive = (
        checkout / "experiments/runs/pilots/brief",
        checkout / "experiments/measured/claims/brief/pilot.tar.xz",
    )
    preset.parent.mkdir(exist_ok=True)
    for text, sentence in ((None, "brief.yaml"), (PILOT.replace("901", "3,901"), "not 3")):
        if text:
            preset.write_text(text)
        refused = command(checkout, "pilot", "brief")
        assert refused.returncode == 2 and sentence in refused.stderr and not runs.exists()
    # stopped by Ctrl-C
    preset.write_text(PILOT.replace("max_steps: 20", "max_steps: 100000"))
    line = [sys.executable, script, "pilot", "brief"]
    process = subprocess.Popen(line, cwd=checkout, stdout=subprocess.PIPE, text=True)
    waited(lambda: any(runs.rglob("last.ckpt")))
    process.send_signal(signal.SIGINT)
    assert "not archived: 2 of 2 runs" in process.communicate(timeout=240)[0] and process.returncode == 1
    assert not archive.exists()
    assert "running" not in [json.loads(file.read_text())["state"] for file in runs.rglob("status.json")]
    shutil.rmtree(runs)

    preset.write_text(PILOT)
    assert "no claim, but a pilot" in command(checkout, "start", "pilots/brief").stderr
    done = command(checkout, "pilot", "brief")
    assert done.returncode == 0 and "pilot.tar.xz, 2 runs" in done.stdout and "a test" in done.stdout, done.stderr
    assert not (checkout / "experiments/runs/claims").exists()
    with tarfile.open(archive) as tar:
        texts = {name: tar.extractfile(name).read().decode() for name in tar.getnames()}
    assert all(name.startswith("brief/") for name in texts) and str(checkout) not in "".join(texts.values())
    # in another clone, for two more rates in place of one: archived runs are not trained again, nor lost
    shutil.rmtree(runs.parent)
    assert "unpacked into experiments/runs: 2" in command(checkout, "restore").stdout
    preset.write_text(PILOT.replace('"1e-3,1e-2"', '"1e-2,2e-2"'))
    again = command(checkout, "pilot", "brief")
    assert "finished before" in again.stderr and "pilot.tar.xz, 3 runs" in again.stdout, again.stderr


def waited(condition: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)
