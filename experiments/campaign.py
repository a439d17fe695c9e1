"""Runs the experiments of conf/experiment/claims in the background, until all of their runs have an outcome.

    python experiments/campaign.py start [CLAIM ...] [--commit C]   begin or go on; CLAIMs are added to the queue
    python experiments/campaign.py status                           what is done, what is left, hours left
    python experiments/campaign.py pause                            stop after the present step of each run
    python experiments/campaign.py restore                          unpack all archives into experiments/runs
    python experiments/campaign.py pilot CLAIM                      train and archive the pilot of a claim

A claim is declared at a commit, the present one unless --commit names another. Its runs are trained from a worktree of
that commit, below experiments/.campaign, by `train.py experiment=claims/<claim>`: one thread a run, as many runs as
cores, lowest priority, seed by seed. `start` after a pause or a kill goes on from the last checkpoints. Once all runs
of a seed have an outcome, their folders without weights are written to
experiments/measured/claims/<claim>/seed<k>.tar.xz, and the report to experiments/reports/claims/<claim>. `pause` writes
the ended runs of other seeds to seed<k>_unfinished.tar.xz, which the archive of the whole seed replaces.

A preset cannot change after its first run: a corrected one needs a new name.

A pilot, conf/experiment/claims/pilots/<claim>.yaml, is not declared: `pilot` trains it from this checkout, on seeds
from 901 on, also beside a campaign; repeated, it goes on. Once all of its runs have an outcome, the folders of all runs
of the pilot are written to experiments/measured/claims/<claim>/pilot.tar.xz, and the report is printed.
"""

import argparse
import dataclasses
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, TextIO

import yaml

from attnlab.config.problem import UserError
from attnlab.config.run_identity import is_former_default
from attnlab.report.runs.read_runs import DIVERGED, grouped, run_folders
from attnlab.report.runs.run_archives import unpack
from attnlab.run import run_lock
from attnlab.run_script import exit_code_of

HERE = Path(__file__).resolve().parent
ROOT, WORK = HERE.parent, HERE / ".campaign"
RUNS, PILOT_RUNS = HERE / "runs" / "claims", HERE / "runs" / "pilots"
MEASURED, REPORTS = HERE / "measured" / "claims", HERE / "reports" / "claims"
QUEUE, LOCK, LOG, OUTPUT = MEASURED / "queue.json", WORK / "lock", WORK / "log.txt", WORK / "output.txt"
PRESETS, PILOTS, FIRST_PILOT_SEED = "conf/experiment/claims", "pilots/", 901
"""folder of the presets, that of the pilots in it, and the lowest seed of a pilot"""
FILES = ("config.yaml", "metrics.csv", "result.json", "status.json")
"""files of a run folder that an archive holds"""
LONGEST_STOP = 1800
"""seconds that the present steps of all runs may take, with their checkpoints, after a stop signal"""
UNFINISHED = "_unfinished"
"""in the name of an archive that has not all runs of its seed"""
PILOT = "pilot.tar.xz"
"""the archive of the pilot runs of a claim"""
MOST_FAILURES = 2
"""failed runs of a claim after which its other runs wait for the next `start`"""


class CampaignError(Exception):
    """What cannot be done, and what to do about it."""


@dataclass(frozen=True)
class Cell:
    """One run of a claim.

    claim:  the name of its preset.
    commit: that declares the claim.
    words:  of the command line, beside the experiment.
    folder: below `RUNS`, of a pilot below `PILOT_RUNS`.
    step:   seconds, guessed (`cost.ms_a_step`); None = no guess.
    """

    claim: str
    commit: str
    words: tuple[str, ...]
    seed: int
    model: str
    folder: str
    steps: int
    step: float | None

    @property
    def name(self) -> str:
        """Claim and words."""
        return " ".join((self.claim, *self.words))

    @property
    def path(self) -> Path:
        """The run folder."""
        return runs_of(self.claim) / self.folder

    def outcome(self) -> str | None:
        """finished, diverged, or None; a run whose process still writes its end has none yet."""
        if (self.path / "result.json").exists():
            return None if self.is_running() else "finished"
        return "diverged" if str(self.status().get("reason", "")).startswith(DIVERGED) else None

    def is_running(self) -> bool:
        """Whether a process trains this run."""
        status = self.status()
        return status.get("state") == "running" and run_lock.is_alive(status, self.path)

    def status(self) -> dict[str, Any]:
        """Content of status.json; empty where there is none yet."""
        with suppress(OSError, ValueError):
            status = json.loads((self.path / "status.json").read_text())
            return status if isinstance(status, dict) else {}
        return {}


def runs_of(claim: str) -> Path:
    """The folder that holds the run folders of a claim, or of a pilot."""
    return PILOT_RUNS if claim.startswith(PILOTS) else RUNS


# The queue: claims in the order of their runs, each with the commit that declares it.


def read_queue() -> dict[str, str]:
    """The commit of each claim, in the order of the queue.

    Raises:
        CampaignError: it cannot be read, or is no list of claims and commits.
    """
    queue = read_json(QUEUE, "settle its conflict, or: git checkout HEAD -- " + str(QUEUE)) if QUEUE.exists() else {}
    if not isinstance(queue, dict) or not all(isinstance(commit, str) for commit in queue.values()):
        raise CampaignError(f'{QUEUE} has no commit for each claim, as in {{"scan_length": "4907f76a68"}}')
    return queue


def read_json(path: Path, advice: str) -> Any:
    """The content of a JSON file.

    Raises:
        CampaignError: it cannot be read, or is no JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CampaignError(f"{path} cannot be read ({error}); {advice}") from error


def declare(claims: Sequence[str], commit: str) -> None:
    """Add claims to the queue. A claim without runs may move to another commit.

    Raises:
        CampaignError: no such preset at that commit, one that does not compose, or a claim with runs whose preset
            differs there.
    """
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    with locked(WORK / "queue.lock", LONGEST_STOP):
        queue = read_queue()
        for claim in claims:
            if claim.startswith(("_", PILOTS)):
                raise CampaignError(f"{claim}: no claim, but a pilot, or settings that claims include")
            if preset_at(full, claim) is None:
                raise CampaignError(f"{claim}: no {PRESETS}/{claim}.yaml at commit {full[:10]}; commit it first")
            if claim not in queue or not has_begun(claim):
                queue[claim] = full
            elif preset_at(queue[claim], claim) != preset_at(full, claim):
                raise CampaignError(changed_preset(claim, queue[claim]))
        cells(queue)
        MEASURED.mkdir(parents=True, exist_ok=True)
        replace(QUEUE, json.dumps(queue, indent=1).encode() + b"\n")


def require_unchanged(queue: Mapping[str, str]) -> None:
    """Compare the presets of claims that still have runs with the declared ones; comments may differ.

    Raises:
        CampaignError: a claim has another preset here, or its commit is not in this repository.
    """
    for claim, commit in queue.items():
        require_commit(commit)
        if preset_at(None, claim) != preset_at(commit, claim):
            raise CampaignError(changed_preset(claim, commit))


def changed_preset(claim: str, commit: str) -> str:
    """The sentence on a preset that differs from its declaration."""
    advice = f"commit it, then: python experiments/campaign.py start {claim}"
    if has_begun(claim):
        advice = "its runs were begun: restore it, and give the changed one a new name with a note why"
    return f"{claim}: {PRESETS}/{claim}.yaml differs from commit {commit[:10]}, which declares it; {advice}"


def preset_at(commit: str | None, claim: str) -> list[Any] | None:
    """A preset and the claims that it includes, without comments, at a commit or in this checkout; None if missing.

    Keys that repeat a former default are left out: they keep a claim as it was declared.

    Raises:
        CampaignError: it is no preset.
    """
    file = f"{PRESETS}/{claim}.yaml"
    if commit is None:
        text = (ROOT / file).read_text(encoding="utf-8", errors="replace") if (ROOT / file).is_file() else None
    else:
        words = ["git", "show", f"{commit}:{file}"]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        text = None if done.returncode else done.stdout
    if text is None:
        return None
    where, place = f"{file}{f' at commit {commit[:10]}' if commit else ''}", "/experiment/claims/"
    try:
        preset = yaml.safe_load(text)
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        raise CampaignError(f"{where} is no yaml ({problem}); settle its conflict, or restore it") from error
    if not isinstance(preset, dict) or not isinstance(preset.get("defaults", []), list):
        raise CampaignError(f"{where} is no preset: it has no settings, or its defaults are no list")
    included = [each.removeprefix(place) for each in preset.get("defaults", []) if str(each).startswith(place)]
    return [without_former_defaults(preset), *(preset_at(commit, each) for each in included)]


def without_former_defaults(section: Mapping[str, Any], key: str = "") -> dict[str, Any]:
    """A section of a preset without keys whose value is a former default, and without sections of such keys only."""
    kept: dict[str, Any] = {}
    for name, value in section.items():
        path = f"{key}.{name}".removeprefix(".")
        if isinstance(value, Mapping) and value:
            if inner := without_former_defaults(value, path):
                kept[name] = inner
        elif not is_former_default(path, value):
            kept[name] = value
    return kept


def has_begun(claim: str) -> bool:
    """Whether a claim has an archive, or a run folder here."""
    return any((MEASURED / claim).glob("seed*.tar.xz")) or any((RUNS / claim).rglob("config.yaml"))


# The worktrees and their runs


def git(*words: str) -> str:
    """Output of a git command in this checkout.

    Raises:
        CampaignError: it fails.
    """
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CampaignError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def require_commit(commit: str) -> None:
    """Check that a commit is in this repository.

    Raises:
        CampaignError: it is not, as in a shallow clone.
    """
    try:
        git("cat-file", "-e", f"{commit}^{{commit}}")
    except CampaignError:
        raise CampaignError(
            f"commit {commit[:10]}, which declares a claim, is not in this clone: git fetch --unshallow"
        ) from None


def worktree(commit: str) -> Path:
    """The worktree of a commit, made if missing; run folders and reports of its commands lie in this checkout.

    Raises:
        CampaignError: files of it were edited, or it is no worktree of that commit.
    """
    tree = WORK / commit[:12]
    if not tree.exists():
        require_commit(commit)
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(tree), commit)
    if git("-C", str(tree), "rev-parse", "HEAD") != commit or git("-C", str(tree), "status", "--porcelain", "-uno"):
        raise CampaignError(
            f"{tree} is not as committed in {commit[:10]}; remove it: git worktree remove --force {tree}"
        )
    for name in ("runs", "reports"):
        (HERE / name).mkdir(exist_ok=True)
        link = tree / "experiments" / name
        if not link.exists():
            link.symlink_to(HERE / name)
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Environment of the commands of a worktree, or of this checkout: its own package, one thread, and data by relative
    paths, so that no archive names a folder of this machine."""
    places = {f"ATTNLAB_{name.upper()}": os.path.relpath(WORK / name, tree) for name in ("data", "cache")}
    return os.environ | places | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}


def cells(queue: Mapping[str, str]) -> list[Cell]:
    """The runs of claims, by claim and seed, as the code of their commits names them; composed once, then read.

    Raises:
        CampaignError: a claim does not compose.
    """
    all_cells: list[Cell] = []
    for claim, commit in queue.items():
        composed = WORK / f"{commit[:12]}-{claim}.json"
        if not composed.exists():
            replace(composed, composed_cells(claim, worktree(commit), f"{claim} at commit {commit[:10]}").encode())
        advice = "remove it: it is made again"
        try:
            members = cells_of(read_json(composed, advice))
        except (TypeError, LookupError) as error:
            raise CampaignError(f"{composed} lists no runs ({error}); {advice}") from error
        all_cells += sorted(members, key=lambda cell: cell.seed)
    return all_cells


def composed_cells(claim: str, tree: Path, where: str) -> str:
    """What `print_cells` prints of a claim or a pilot in a worktree, or in this checkout.

    Raises:
        CampaignError: it does not compose.
    """
    command = [sys.executable, "experiments/campaign.py", "cells", claim]
    done = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False)
    if done.returncode:
        raise CampaignError(f"{where}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def cells_of(entries: Iterable[dict[str, Any]]) -> list[Cell]:
    """The runs that `print_cells` has printed."""
    return [Cell(**entry | {"words": tuple(entry["words"])}) for entry in entries]


def print_cells(claim: str) -> None:
    """Print the runs of a claim as JSON, by the package of this worktree."""
    import itertools

    from attnlab.config.command_line.words import as_text, read_overrides
    from attnlab.config.compose import compose_with_hydra
    from attnlab.config.shipped_files import CONF
    from attnlab.config.sweep import check_command

    experiment = f"experiment=claims/{claim}"
    params = compose_with_hydra([experiment])[1]["params"]
    items, _ = read_overrides([f"{key}={value}" for key, value in params.items()], CONF)
    lines = itertools.product(*([as_text(item, value) for value in item.values] for item in items))
    claim_cells, runs = [], runs_of(claim).relative_to(ROOT)
    for job, words in zip(check_command(["-m", experiment]).jobs, lines, strict=True):
        guess, folder = job.typed.cost.ms_a_step, job.folder
        if not folder.is_relative_to(runs / claim.removeprefix(PILOTS)):
            raise CampaignError(f"{claim}: its preset needs paths: {{runs: {runs / claim.removeprefix(PILOTS)}}}")
        cell = Cell(
            claim=claim,
            commit=git("rev-parse", "HEAD"),
            words=words,
            seed=job.typed.seed,
            model=job.typed.model.name,
            folder=str(folder.relative_to(runs)),
            steps=job.typed.train.max_steps or 0,
            step=sum(guess) / len(guess) / 1000 if guess else None,
        )
        claim_cells.append(asdict(cell))
    print(json.dumps(claim_cells))


def begin(cell: Cell, lock: TextIO) -> subprocess.Popen[bytes]:
    """Start a run. It holds the lock too, and is stopped when this process ends."""
    words = ("train.py", f"experiment=claims/{cell.claim}", *cell.words, "logger=csv", "trainer.progress=none")
    return child(cell.commit, words, lock)


def child(commit: str, words: Sequence[str], lock: TextIO) -> subprocess.Popen[bytes]:
    """Start a command in the worktree of a commit."""
    tree = worktree(commit)
    with OUTPUT.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, *words],
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
            preexec_fn=_stopped_with_parent,  # noqa: PLW1509  this process has one thread
        )


def _stopped_with_parent() -> None:
    """Ask Linux to send SIGTERM to this process when its parent ends, also by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def take_lowest_priority() -> None:
    """Give this process and its runs the lowest priority, also where Linux shares processors among sessions."""
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


# The loop


def run(lock: TextIO) -> int:
    """Train all runs without an outcome, as many at once as cores; returns the exit code.

    Args:
        lock: the open lock file, which this process holds.
    """
    write_pid(lock, os.getpid())
    take_lowest_priority()
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopping.append(number))
    running: dict[subprocess.Popen[bytes], Cell] = {}
    reports: list[subprocess.Popen[bytes]] = []
    tried: set[Cell] = set()
    try:
        reports += archive_seeds(cells(read_queue()), lock)
        while not stopping:
            while len(running) < len(os.sched_getaffinity(0)) and (cell := next_cell(tried, running.values())):
                tried.add(cell)
                running[begin(cell, lock)] = cell
                log(f"begun: {cell.name}")
            if not running:
                break
            for process in [each for each in running if each.poll() is not None]:
                cell = running.pop(process)
                failure = f"failed with exit code {process.returncode}, see {OUTPUT.name}"
                log(f"{cell.outcome() or failure}: {cell.name}")
                seed = [each for each in cells({cell.claim: cell.commit}) if each.seed == cell.seed]
                reports += archive_seeds(seed, lock)
            reports = [each for each in reports if each.poll() is None]
            time.sleep(0.5)
        for report in reports if not stopping else ():
            report.wait()
    except Exception as error:
        log(f"ended by an error: {error}")
        raise
    finally:
        write_pid(lock, None)
        for process in (*running, *reports):
            process.terminate()
        for process in (*running, *reports):
            process.wait()
    failed = sum(cell.outcome() is None for cell in tried)
    log(f"stopped by {signal.Signals(stopping[0]).name}" if stopping else f"ended; failed runs: {failed}")
    return 128 + stopping[0] if stopping else int(bool(failed))


def next_cell(tried: set[Cell], running: Collection[Cell]) -> Cell | None:
    """The first run of the queue that has no outcome and was not tried yet, of claims with few failed runs."""
    failures = Counter(cell.claim for cell in tried if cell not in running and cell.outcome() is None)
    left = (cell for cell in cells(read_queue()) if cell not in tried and failures[cell.claim] < MOST_FAILURES)
    return next((cell for cell in left if cell.outcome() is None), None)


def log(sentence: str) -> None:
    """Append a line with the time to the log."""
    with LOG.open("a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {sentence}\n")


# The lock of the campaign, which its runs hold too; it contains the process of the campaign until this stops.


@contextmanager
def locked(path: Path, seconds: float) -> Iterator[TextIO]:
    """A locked file, waited for if another process holds it.

    Raises:
        CampaignError: it is still held after some seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    with path.open("a+") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise CampaignError(f"{path} is still held by another process") from None
                time.sleep(0.2)
        yield lock


def write_pid(lock: TextIO, pid: int | None) -> None:
    """Write the process of the campaign into its lock; None = it stops, and its runs are being saved."""
    lock.seek(0)
    lock.truncate()
    lock.write("" if pid is None else f"{pid}\n")
    lock.flush()


def campaign_process() -> int | None:
    """The process of the running campaign; None where none runs, also while runs of a stopped one are being saved."""
    with suppress(CampaignError), locked(LOCK, 0):
        return None
    text = LOCK.read_text(errors="replace").strip()
    return int(text) if text.isdecimal() and is_alive(int(text)) else None


def is_alive(pid: int) -> bool:
    """Whether a process of this machine runs; one that was killed may be listed until its parent asks for it."""
    try:
        os.kill(pid, 0)
    except (OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def replace(path: Path, content: bytes) -> None:
    """Write a file atomically, by way of a file outside of the tracked folders."""
    WORK.mkdir(parents=True, exist_ok=True)
    part = WORK / f"{path.name}.{os.getpid()}.part"
    part.write_bytes(content)
    part.replace(path)


def remove_parts() -> None:
    """Remove what killed processes, also of earlier versions, have left of files that they wrote."""
    for part in (*WORK.glob("*.part"), *MEASURED.rglob("*.part")):
        pid = part.suffixes[-2].removeprefix(".") if len(part.suffixes) > 1 else ""
        if pid.isdecimal() and not is_alive(int(pid)):
            part.unlink(missing_ok=True)


# Archives


def archive_seeds(members: Sequence[Cell], lock: TextIO) -> list[subprocess.Popen[bytes]]:
    """Write the archive of every seed that is complete and has none; starts the reports of these claims, and of those
    that have none here."""
    changed = {}
    for (claim, commit, seed), of_seed in by_seed(members).items():
        archive = archive_of(claim, seed)
        if not archive.exists() and all(cell.outcome() for cell in of_seed):
            write_archive(archive, of_seed)
            archive_of(claim, seed, UNFINISHED).unlink(missing_ok=True)
            changed[claim] = commit
        elif archive.exists() and not (REPORTS / claim / "report.json").exists():
            changed[claim] = commit
    return [child(commit, ("report.py", f"experiment=claims/{claim}"), lock) for claim, commit in changed.items()]


def archive_unfinished(members: Sequence[Cell]) -> None:
    """Write archives of the runs with an outcome of seeds that are not complete, so that other machines go on there."""
    for (claim, _, seed), of_seed in by_seed(members).items():
        ended = [cell for cell in of_seed if cell.outcome()]
        if ended and not archive_of(claim, seed).exists():
            write_archive(archive_of(claim, seed, UNFINISHED), ended)


def by_seed(members: Sequence[Cell]) -> dict[tuple[str, str, int], list[Cell]]:
    """Runs by claim, commit and seed."""
    return grouped((cell, (cell.claim, cell.commit, cell.seed)) for cell in members)


def archive_of(claim: str, seed: int, kind: str = "") -> Path:
    """The archive of a seed; `UNFINISHED`: of a part of its runs."""
    return MEASURED / claim / f"seed{seed}{kind}.tar.xz"


def write_archive(archive: Path, members: Sequence[Cell]) -> None:
    """Write the archive of some runs, with a line in the log."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    replace(archive, packed(sorted(cell.folder for cell in members)))
    log(f"written: {archive.relative_to(ROOT)}, {archive.stat().st_size:,} bytes")


def packed(folders: Sequence[str], runs: Path = RUNS) -> bytes:
    """A tar.xz file of run folders below `runs`, the same bytes for the same files; without the process and the
    machine."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            for file in (runs / folder / name for name in FILES if (runs / folder / name).exists()):
                data = file.read_bytes()
                if file.name == "status.json":
                    stored = read_json(file, "restore it from a copy, or move its run away")
                    status = {key: value for key, value in stored.items() if key not in ("pid", "host")}
                    data = json.dumps(status, indent=2).encode() + b"\n"
                entry = tarfile.TarInfo(f"{folder}/{file.name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def restore() -> int:
    """Unpack the run folders of all archives, also of pilots, that are not there; returns their number.

    Raises:
        CampaignError: as `unpack_into`.
    """
    return unpack_into(RUNS, "*/seed*.tar.xz") + unpack_into(PILOT_RUNS, f"*/{PILOT}")


def unpack_into(runs: Path, archives: str) -> int:
    """Unpack the run folders that are not there of the archives that match a glob; returns their number.

    Raises:
        CampaignError: an archive is damaged, or two copies of a run differ.
    """
    try:
        count, earlier = unpack(MEASURED.glob(archives), runs)
    except UserError as error:
        raise CampaignError(str(error)) from error
    for sentence in earlier:
        print(f"note: {sentence}", file=sys.stderr)
    return count


# Pilots


def pilot(claim: str) -> int:
    """Train what is left of a claim's pilot, archive it once all runs have an outcome, and print its report.

    Returns:
        The exit code: 1 if runs are left.

    Raises:
        CampaignError: there is no such pilot, it does not compose, or it has a seed that claims may use.
    """
    name = f"{PILOTS}{claim}"
    if preset_at(None, name) is None:
        raise CampaignError(f"{claim}: no {PRESETS}/{name}.yaml, which declares its pilot")
    members = cells_of(json.loads(composed_cells(name, ROOT, name)))
    if low := sorted({cell.seed for cell in members if cell.seed < FIRST_PILOT_SEED}):
        seeds = ", ".join(map(str, low))
        raise CampaignError(
            f"{name}: seeds of a pilot are {FIRST_PILOT_SEED} and up, which claims do not use, not {seeds}"
        )
    remove_parts()
    unpack_into(PILOT_RUNS, f"{claim}/{PILOT}")
    link_data()
    words = "hydra/launcher=joblib", "logger=csv", "trainer.progress=none"
    in_background("train.py", "-m", f"experiment=claims/{name}", *words)
    left = sum(cell.outcome() is None for cell in members)
    if left:
        print(f"not archived: {left} of {len(members)} runs have no outcome; the same command goes on", flush=True)
    else:
        archive_pilot(members[0])
    code = in_background("report.py", f"experiment=claims/{name}")
    return int(bool(left or code))


def in_background(*words: str) -> int:
    """Run a command in this checkout at the lowest priority, its lines shown here; returns its exit code.

    It is stopped when this process ends, and by Ctrl-C.
    """
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env=environment(ROOT),
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # the priority of a session is not that of the terminal
        preexec_fn=_idle_and_stopped_with_parent,  # noqa: PLW1509  this process has one thread
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.terminate()
        return process.wait()


def _idle_and_stopped_with_parent() -> None:
    _stopped_with_parent()
    take_lowest_priority()


def archive_pilot(member: Cell) -> None:
    """Write the archive of all runs of a pilot that have an outcome, given one: also those of former settings."""
    claim = member.claim.removeprefix(PILOTS)
    folders = (str(folder.relative_to(PILOT_RUNS)) for folder in run_folders(str(PILOT_RUNS / claim)))
    ended = sorted(folder for folder in folders if dataclasses.replace(member, folder=folder).outcome())
    archive = MEASURED / claim / PILOT
    archive.parent.mkdir(parents=True, exist_ok=True)
    replace(archive, packed(ended, PILOT_RUNS))
    print(f"written: {archive.relative_to(ROOT)}, {len(ended)} runs, {archive.stat().st_size:,} bytes", flush=True)


# Commands


def start(claims: Sequence[str], commit: str | None) -> None:
    """Declare claims, unpack archives, and start or go on in the background.

    Raises:
        CampaignError: no claims, or a preset that differs from its declaration.
    """
    remove_parts()
    if claims:
        declare(claims, commit or "HEAD")
    elif commit:
        raise CampaignError("--commit needs the names of claims")
    if not (queue := read_queue()):
        raise CampaignError(f"the queue is empty: start with names of {PRESETS}")
    restore()
    all_cells = list(cells(queue))
    open_claims = [cell.claim for cell in all_cells if cell.outcome() is None]
    # runs of ended claims are compared with their presets one by one: tests/project/test_archived_claims.py
    ended = {cell.claim for cell in all_cells}.difference(open_claims)
    require_unchanged({claim: commit for claim, commit in queue.items() if claim not in ended})
    left = len(open_claims)
    if campaign_process():
        print(f"the campaign is running; runs left: {left}")
        return
    link_data()
    command = [sys.executable, str(HERE / "campaign.py"), "run"]
    with locked(LOCK, LONGEST_STOP) as lock, OUTPUT.open("ab") as output:
        if campaign_process():
            print(f"the campaign is running; runs left: {left}")
            return
        process = subprocess.Popen(
            [*command, str(lock.fileno())],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
        write_pid(lock, process.pid)
    print(f"running in the background; runs left: {left}; log: {LOG.relative_to(ROOT)}")


def link_data() -> None:
    """Link the folder of the official files: ATTNLAB_DATA, else that of an earlier start, else data/."""
    link, named = WORK / "data", os.environ.get("ATTNLAB_DATA")
    folder = Path(named or ROOT / "data").resolve()
    WORK.mkdir(parents=True, exist_ok=True)
    if not link.exists() or (named and link.resolve() != folder):
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
    print(f"data: {link.resolve()}")


def pause() -> None:
    """Stop the campaign, wait until its runs are saved, and archive the ended ones of seeds that are not complete.

    Raises:
        CampaignError: they did not end in time.
    """
    pid = campaign_process()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        print("waiting for the present step of each run, which can take minutes beside other work", flush=True)
    with locked(LOCK, LONGEST_STOP):
        archive_unfinished(cells(read_queue()))
        print("the campaign was not running" if pid is None else "paused: every run is saved; `start` goes on")


def status() -> None:
    """Print what is done of each claim, runs left and hours of training left."""
    restore()
    queue = read_queue()
    members = cells(queue)
    print(f"{'not running' if campaign_process() is None else 'running'}\n")
    print(f"{'claim':32}{'commit':12}{'done':>10}{'diverged':>10}{'seeds archived':>16}{'core-hours left':>17}")
    hours: list[float | None] = []
    for claim, commit in queue.items():
        claim_cells = [cell for cell in members if cell.claim == claim]
        outcomes = [cell.outcome() for cell in claim_cells]
        hours.append(hours_left(claim_cells))
        seeds = {cell.seed for cell in claim_cells}
        archived = f"{sum(archive_of(claim, seed).exists() for seed in seeds)}/{len(seeds)}"
        left = "unknown" if hours[-1] is None else f"{hours[-1]:.1f}"
        done = f"{sum(map(bool, outcomes))}/{len(claim_cells)}"
        print(f"{claim:32}{commit[:10]:12}{done:>10}{outcomes.count('diverged'):>10}{archived:>16}{left:>17}")
    done = f"{sum(cell.outcome() is not None for cell in members)}/{len(members)}"
    unknown = " and unknown ones" if None in hours else ""
    print(f"{'all':44}{done:>10}{'':26}{sum(filter(None, hours)):>17.1f}{unknown}")
    for cell in members:
        record = cell.status() if cell.outcome() is None else {}
        if cell.is_running():
            print(f"now: {cell.name}, last checkpoint at step {record.get('step', 0):,} of {cell.steps:,}")
        elif record.get("state") == "failed":
            print(f"failed: {cell.name}: {record.get('reason')}")


def hours_left(members: Sequence[Cell]) -> float | None:
    """Hours of training of the runs without an outcome: by the median step of the finished runs of their model, else of
    all of the claim, else by the guess of the preset; None = unknown. Validations and tests come on top."""
    steps: dict[str, list[float]] = {}
    for cell in members:
        if cell.outcome() == "finished" and (measured := cell.status().get("step_seconds")):
            for key in (cell.model, ""):
                steps.setdefault(key, []).append(measured)
    hours = 0.0
    for cell in members:
        if cell.outcome() is None:
            known = steps.get(cell.model) or steps.get("") or ([cell.step] if cell.step else [])
            if not known:
                return None
            hours += median(known) * (cell.steps - cell.status().get("step", 0)) / 3600
    return hours


def main(argv: Sequence[str]) -> int:
    """Command line; returns the exit code."""
    commands = "start", "status", "pause", "restore", "pilot", "run", "cells"
    parser = argparse.ArgumentParser(
        description=__doc__, usage=argparse.SUPPRESS, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=commands, metavar="start | status | pause | restore | pilot")
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="a name of conf/experiment/claims")
    parser.add_argument("--commit", metavar="C", help="the commit that declares the claims (default: HEAD)")
    options = parser.parse_args(argv)
    names = {"status": 0, "pause": 0, "restore": 0, "pilot": 1}.get(options.command)
    if names is not None and (len(options.claims) != names or options.commit):
        parser.error(f"{options.command} takes {'the name of one claim' if names else 'no other words'}")
    try:
        match options.command:
            case "start":
                start(options.claims, options.commit)
            case "status":
                status()
            case "pause":
                pause()
            case "restore":
                print(f"run folders unpacked into {RUNS.parent.relative_to(ROOT)}: {restore()}")
            case "pilot":
                return pilot(options.claims[0])
            case "run":
                # begun by `start`, which has locked this file, or by hand
                descriptor = [int(word) for word in options.claims]
                opened = open(descriptor[0], "r+") if descriptor else locked(LOCK, LONGEST_STOP)  # noqa: SIM115
                with opened as lock:
                    return run(lock)
            case "cells":
                print_cells(options.claims[0])
    except CampaignError as error:
        print(f"campaign.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main, sys.argv[1:]))
