"""`python evaluate.py`: other splits, cutoffs and lengths of a trained run; its result stays unchanged."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest
import yaml
from support.real_data import real_data
from support.small_runs import ROOT, SMALL_CLEVR, SMALL_SCAN, config_of, environment, run_command, run_job

from attnlab.config.classes.words import KINDS, names_in
from attnlab.config.run_identity import run_folder
from attnlab.config.shipped_files import CONF
from attnlab.data.files import fetch
from attnlab.data.task_spec import TaskSpec
from attnlab.launch import evaluate_cli
from attnlab.launch.evaluate_cli import evaluate_main
from attnlab.report.cli import report_main
from attnlab.report.diagnose.cli import diagnose_main
from attnlab.run import evaluate_run
from attnlab.run.loaded_run import load_run
from attnlab.run.named_runs import DATA_FOLDERS, paths_here
from attnlab.run.run_folder import RunError
from attnlab.tasks.word_problem import WordProblem

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


def test_changed_data_is_said(scan_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = shutil.copytree(scan_run, tmp_path / "run")
    status = json.loads((copy / "status.json").read_text())
    (copy / "status.json").write_text(json.dumps(status | {"data": status["data"] | {"hash": "0" * 16}}))
    assert evaluate_main([f"run={copy}", "subset=test/ood"]) == 0
    assert f"the data of this task has changed since the run was trained on it (hash {'0' * 16}" in (
        capsys.readouterr().err
    )
    assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 0
    assert "has changed" not in capsys.readouterr().err


def test_another_cutoff_is_evaluated(scan_run: Path) -> None:
    assert evaluate_main([f"run={scan_run}", "task.length_cutoff=36", "subset=test/ood"]) == 0
    assert findings(scan_run, "scan-length_cutoff-36,subset=test_ood")["counts"]["test/ood"] == 384
    # a part of the test stands beside it
    words = ["task.length_cutoff=36", "subset=test/ood", "train.eval_batches=1", "train.eval_batch_size=16"]
    assert evaluate_main([f"run={scan_run}", *words]) == 0
    assert findings(scan_run, "scan-length_cutoff-36,subset=test_ood")["counts"]["test/ood"] == 384
    assert findings(scan_run, "scan-length_cutoff-36,subset=test_ood,eval_batches=1")["counts"]["test/ood"] == 16


def test_examples_are_chosen_by_length(scan_run: Path) -> None:
    assert evaluate_main([f"run={scan_run}", "lengths=20-24", "subset=train"]) == 0
    counts = findings(scan_run, "scan-length_cutoff-40,subset=train,lengths=20-24")["counts"]
    assert set(counts) <= {"train", *(f"train/length_{n}" for n in range(20, 25))}


def test_an_official_split_is_evaluated(scan_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = real_data("scan/SCAN.tar.gz").parent.parent
    assert evaluate_main([f"run={scan_run}", "task.split=addprim_turn_left", f"paths.data={data}"]) == 0
    assert findings(scan_run, "scan-addprim_turn_left")["counts"]["test"] == 1208


def test_data_is_read_and_prepared_where_this_command_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where a run says, whose config.yaml may be a stranger's."""
    raw = config_of(tmp_path / "there", *SMALL_CLEVR, *STEPS)
    assert run_job(raw, quiet=True) == 0
    run, there = run_folder(raw), Path(raw["paths"]["cache"])
    shutil.rmtree(there)
    assert evaluate_main([f"run={run}", f"paths.cache={tmp_path / 'here'}"]) == 0
    assert (tmp_path / "here").exists() and not there.exists()
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "mine"))
    assert evaluate_main([f"run={run}"]) == 0
    assert diagnose_main([f"diagnose={run}", "quantities=norms"]) == 0
    assert load_run(run).network is not None
    assert (tmp_path / "mine").exists() and not there.exists()


def test_data_is_read_as_in_training_and_the_cache_is_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNLAB_DATA", "/here")
    monkeypatch.setenv("ATTNLAB_CACHE", "/here/cache")
    here = {"data": "/here", "cache": "/here/cache"}
    assert paths_here({"data": "data", "cache": "data/cache"}) == here
    assert "note: paths.data is /here; it was data in training" in capsys.readouterr().err
    chosen = {"data": str(tmp_path), "cache": str(tmp_path)}
    assert paths_here(chosen) == here | {"data": str(tmp_path)}
    assert paths_here(here) == here and not capsys.readouterr().err
    assert paths_here(chosen | {"data": str(tmp_path / "gone")}) == here
    monkeypatch.setenv("ATTNLAB_DATA", "")
    monkeypatch.delenv("ATTNLAB_CACHE")
    assert paths_here({"data": "data", "cache": "/theirs"}) == {"data": "data", "cache": "data/cache"}


def test_downloads_do_not_go_to_the_data_folder_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which may be any folder of this machine, by a stranger's config.yaml."""
    targets: list[Path] = []

    def download(file: fetch.OfficialFile, target: Path, by_hand: Path) -> None:
        targets.append(target)
        target.touch()

    monkeypatch.setattr(fetch, "_download", download)
    file = fetch.OfficialFile(path="task/file", url="http://nowhere")
    for only_read in (True, False):
        fetch.fetch(file, fetch.Folders(tmp_path / "data", tmp_path / "cache", only_read))
        targets[-1].unlink()
    assert targets == [tmp_path / "cache/downloads/task/file", tmp_path / "data/task/file"]


@pytest.mark.parametrize("name", ["evaluations", "diagnosis"])
def test_output_follows_no_link_of_a_run_folder(
    name: str, scan_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy, elsewhere = shutil.copytree(scan_run, tmp_path / "run"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(copy / name, ignore_errors=True)
    (copy / name).symlink_to(elsewhere)
    main = [f"run={copy}", "subset=test/ood"] if name == "evaluations" else [f"diagnose={copy}", "quantities=norms"]
    command = evaluate_main if name == "evaluations" else diagnose_main
    assert command(main) == 1
    assert f"{copy / name} is a link" in capsys.readouterr().err and not list(elsewhere.iterdir())
    # nor a link in the place of a file
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (copy / name).unlink()
    (copy / name).mkdir()
    files = ("norms.png", "norms.csv") if name == "diagnosis" else ("scan-length_cutoff-40,subset=test_ood.json",)
    for file in files:
        (copy / name / file).symlink_to(victim)
    assert command(main) == 0
    assert victim.read_text() == "mine" and all(not (copy / name / file).is_symlink() for file in files)


def test_variables_and_default_folders_are_those_of_training() -> None:
    written = yaml.safe_load((CONF / "config.yaml").read_text())["paths"]
    assert {key: f"${{oc.env:{variable},{default}}}" for key, (variable, default) in DATA_FOLDERS.items()} == {
        key: written[key] for key in DATA_FOLDERS
    }


def test_the_environment_names_the_folder_of_official_files(scan_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_DATA", str(real_data("scan/SCAN.tar.gz").parent.parent))
    assert evaluate_main([f"run={scan_run}", "task.split=addprim_turn_left", "subset=test"]) == 0


def test_examples_of_the_training_set_are_counted(scan_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "scan-length_cutoff-30,subset=test_ood"
    assert evaluate_main([f"run={scan_run}", "task.length_cutoff=30", "subset=test/ood"]) == 0
    report = findings(scan_run, name)
    # 1,152 pairs are longer than 30 actions; of the 1,024 with at most 40, the run has trained on nine tenths.
    assert report["counts"]["test/ood"] == 1152
    assert 850 < report["seen_in_training"]["test/ood"] < 990
    noted = capsys.readouterr().err
    assert "note: the task is not as in training: task.length_cutoff: 40 -> 30" in noted
    assert f"the run was trained on {report['seen_in_training']['test/ood']:,} of these 1,152" in noted
    assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 0
    assert findings(scan_run, "scan-length_cutoff-40,subset=test_ood")["seen_in_training"] == {"test/ood": 0}


def test_tokens_of_one_number_but_another_meaning_are_refused() -> None:
    """Z60 and A5 both have sixty elements."""
    evaluate_run._require_same_tokens(WordProblem("A5"), WordProblem("A5"))
    with pytest.raises(RunError, match="trained with the token 0, in place of which this data has 01234"):
        evaluate_run._require_same_tokens(WordProblem("A5"), WordProblem("Z60"))


@pytest.mark.parametrize("kinds", [*permutations(names_in(KINDS), 2)])
def test_another_kind_of_task_is_refused(kinds: tuple[str, str]) -> None:
    """Whether the weights of one fit the network of the other: those of compression fit the one of tagging."""
    trained, tested = (TaskSpec(kind=kind, modality="tokens") for kind in kinds)
    with pytest.raises(RunError, match=rf"kind {kinds[0]}\b.*kind {kinds[1]}\b"):
        evaluate_run._require_same_outputs(tested, trained)
    with pytest.raises(RunError, match=r"task\.causal=true"):
        evaluate_run._require_same_outputs(replace(trained, causal=True), trained)


def test_a_compression_network_is_not_tested_as_a_tagger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("task.train_examples=16", "task.val_examples=8", "task.test_examples=8", "debug=smoke", "model=linear")
    raw = config_of(tmp_path, "task=mad", "task.dataset=compression", *sizes)
    assert run_job(raw, quiet=True) == 0
    assert evaluate_main([f"run={run_folder(raw)}", "task.dataset=selective_copying"]) == 1
    assert "kind compression" in capsys.readouterr().err
    assert not (run_folder(raw) / "evaluations" / "mad-selective_copying.json").exists()


def test_an_unwritable_folder_is_one_sentence(scan_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = scan_run / "evaluations"
    folder.mkdir(exist_ok=True)
    folder.rename(scan_run / "aside")
    folder.write_text("a file in the way")
    try:
        assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 1
        assert "cannot write" in capsys.readouterr().err
    finally:
        folder.unlink()
        (scan_run / "aside").rename(folder)


def test_a_read_only_folder_is_known_before_the_work(
    scan_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write wherever permissions forbid it, so the file system's answer is a stand-in."""
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: scan_run not in Path(path).parents and allowed(path, mode))
    evaluated: list[object] = []
    separate = evaluate_run.evaluate_run
    monkeypatch.setattr(
        evaluate_run, "evaluate_run", lambda *requested: (evaluated.append(requested), separate(*requested))[1]
    )
    words = [f"run={scan_run}", "subset=test/ood"]
    assert evaluate_main(words) == 1
    printed = capsys.readouterr().err
    assert "cannot write into" in printed and "read-only" in printed and "out=" in printed
    assert evaluated == []
    assert evaluate_main([*words, f"out={tmp_path / 'new' / 'findings'}"]) == 0
    [file] = (tmp_path / "new" / "findings").iterdir()
    assert json.loads(file.read_text())["counts"]["test/ood"] == 128
    assert f"written to {file}" in capsys.readouterr().out


def test_numbers_are_shown_before_they_are_written(
    scan_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RunError("cannot write: no space left")

    monkeypatch.setattr(evaluate_cli, "write_text", full)
    assert evaluate_main([f"run={scan_run}", "subset=test/ood"]) == 1
    printed = capsys.readouterr()
    shown = [line for line in printed.out.splitlines() if line.startswith("test/ood/")]
    assert len({len(line) for line in shown}) == 1 < len(shown) and "written to" not in printed.out
    assert "no space left" in printed.err


def test_folders_of_several_runs_say_which(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists the seeds of a setting, or the nearest folders of a task; at most eight."""
    setting = tmp_path / "runs" / "scan" / "linear" / "lr=0.1,n_layers=2"
    for seed in range(10):
        (setting / f"seed{seed}").mkdir(parents=True)
        (setting / f"seed{seed}" / "config.yaml").write_text("")
    assert evaluate_main([f"run={setting}"]) == 2
    printed = capsys.readouterr().err
    assert "no run folder, but holds some: seed0, seed1, seed2" in printed and "seed7, ...; write run=" in printed
    assert f"write run={setting / 'seed0'}" in printed
    assert evaluate_main([f"run={tmp_path / 'runs'}"]) == 2
    assert "holds some: scan/linear/lr=0.1,n_layers=2/seed0, " in capsys.readouterr().err
    assert evaluate_main([f"run={setting.parent / 'lr=0.2,n_layers=2'}"]) == 2
    assert f"no such folder; nearest: {setting}" in capsys.readouterr().err
    assert diagnose_main([f"diagnose={setting}"]) == 2
    assert f"write diagnose={setting / 'seed0'}" in capsys.readouterr().err


def test_a_folder_without_its_key_gets_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names of run folders hold = and commas, some a space or a point."""
    monkeypatch.chdir(tmp_path)
    for name in ("lr=0.1,n_layers=2/seed0", "run=1", "task.name=x", "a b=1", "plain"):
        Path(name).mkdir(parents=True)
        for main, key in ((evaluate_main, "run"), (diagnose_main, "diagnose"), (report_main, "runs")):
            if name.startswith(f"{key}="):
                continue
            assert main([name]) == 2
            printed = capsys.readouterr().err
            assert f"{name}: write {shlex.quote(f'{key}={name}')}" in printed
            assert "1 problem" in printed or key == "diagnose"


def test_a_wrong_subset_is_refused_before_lightning_loads(scan_run: Path) -> None:
    words = [f"run={scan_run}", "subset=test/length_30"]
    code = f"import sys; from attnlab.launch.evaluate_cli import evaluate_main; assert evaluate_main({words!r}) == 2; "
    code += "heavy = {'pytorch_lightning', 'wandb'} & set(sys.modules); assert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", code], env=environment(), cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


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
        (["run=README.md"], 2, "it is a file"),
        (["{run}", "checkpoint=first"], 2, "selected, last, best"),
        (["{run}", "checkpoint=best"], 1, "kept no best weights"),
        (["{run}", "subset=dev"], 2, "test/iid, test/ood"),
        (["{run}", "subset=test/odd"], 2, "nearest: test/ood"),
        (["{run}", "subset=test/length_30"], 2, "nearest: test/iid"),
        (["{run}", "subset=test/length_30"], 2, "one length alone: lengths=30"),
        (["{run}", "subset=test/ood/length_30"], 2, "nearest: test/ood;"),
        (["{run}", "subset=test/ood", "task.split=simple"], 2, "have train, test"),
        (["{run}", "out="], 2, "out=: empty"),
        (["{run}", "subset=test/ood", "lengths=3"], 1, "lengths go from 48 to 48"),
    ],
)
def test_mistakes_are_named(
    scan_run: Path, arguments: list[str], code: int, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate_main([f"run={scan_run}" if a == "{run}" else a for a in arguments]) == code
    assert expected in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_py_runs_as_a_command(scan_run: Path) -> None:
    done = run_command("evaluate.py", f"run={scan_run}", "subset=test/ood")
    assert done.returncode == 0, done.stderr
    assert "test/ood/sequence_accuracy" in done.stdout
    assert run_command("evaluate.py", "--help").returncode == 0
