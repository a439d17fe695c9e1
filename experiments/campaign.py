"""Runs the experiments of conf/experiment/claims in the background, until all of their runs have an outcome.

    python experiments/campaign.py start [CLAIM ...] [--commit C]   begin or go on; CLAIMs are added to the queue
    python experiments/campaign.py status                           what is done, what is left, hours left
    python experiments/campaign.py pause                            stop after the present step of each run
    python experiments/campaign.py restore                          unpack all archives into experiments/runs

A claim is declared at a commit, the present one unless --commit names another. Its runs are trained from a worktree of
that commit, below experiments/.campaign, by `train.py experiment=claims/<claim>`: one thread a run, as many runs as
cores, lowest priority, seed by seed. `start` after a pause or a kill goes on from the last checkpoints. Once all runs
of a seed have an outcome, their folders without weights are written to
experiments/measured/claims/<claim>/seed<k>.tar.xz, and the report to experiments/reports/claims/<claim>.

A preset cannot change after its first run: a corrected one needs a new name.
"""

import argparse
import fcntl
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import yaml

HERE = Path(__file__).resolve().parent
ROOT, RUNS, WORK = HERE.parent, HERE / "runs", HERE / ".campaign"
MEASURED, REPORTS = HERE / "measured" / "claims", HERE / "reports" / "claims"
QUEUE, LOCK, LOG, OUTPUT = MEASURED / "queue.json", WORK / "lock", WORK / "log.txt", WORK / "output.txt"
PRESETS = "conf/experiment/claims"
FILES = ("config.yaml", "metrics.csv", "result.json", "status.json")
"""files of a run folder that an archive holds"""
DIVERGED = "NonFiniteLoss:"
"""beginning of the reason of a run that diverged, which is an outcome"""
PLACES = ("paths.runs=../../runs", "paths.data=../data", "paths.cache=../cache", "logger=csv", "trainer.progress=none")
"""words of every command; paths are relative, so that no archive names a folder of this machine"""
LONGEST_STOP = 600
"""seconds that a step with its checkpoint may take after a stop signal"""


class CampaignError(Exception):
    """What cannot be done, and what to do about it."""


@dataclass(frozen=True)
class Cell:
    """One run of a claim.

    words:  of the command line, beside the experiment.
    folder: below `RUNS`.
    hours:  of training, from the guessed time of a step; None = no guess.
    """

    claim: str
    words: tuple[str, ...]
    seed: int
    model: str
    folder: str
    hours: float | None

    @property
    def name(self) -> str:
        """Claim and words."""
        return " ".join((self.claim, *self.words))

    def outcome(self) -> str | None:
        """finished, diverged, or None."""
        if (RUNS / self.folder / "result.json").exists():
            return "finished"
        return "diverged" if str(self.status().get("reason", "")).startswith(DIVERGED) else None

    def status(self) -> dict[str, Any]:
        """Content of status.json; empty where there is none yet."""
        with suppress(OSError, ValueError):
            return json.loads((RUNS / self.folder / "status.json").read_text())
        return {}


# The queue: claims in the order of their runs, each with the commit that declares it.


def read_queue() -> dict[str, str]:
    """The commit of each claim, in the order of the queue."""
    return json.loads(QUEUE.read_text()) if QUEUE.exists() else {}


def declare(claims: Sequence[str], commit: str) -> None:
    """Add claims to the queue. A claim without runs may move to another commit.

    Raises:
        CampaignError: no such preset at that commit, or a claim with runs whose preset differs there.
    """
    queue, full = read_queue(), git("rev-parse", "--verify", f"{commit}^{{commit}}")
    for claim in claims:
        if preset_at(full, claim) is None:
            raise CampaignError(f"{claim}: no {PRESETS}/{claim}.yaml at commit {full[:10]}; commit it first")
        if claim not in queue or not has_begun(claim, queue[claim]):
            queue[claim] = full
        elif preset_at(queue[claim], claim) != preset_at(full, claim):
            raise CampaignError(changed_preset(claim, queue[claim]))
    MEASURED.mkdir(parents=True, exist_ok=True)
    replace(QUEUE, json.dumps(queue, indent=1).encode() + b"\n")


def require_unchanged(queue: Mapping[str, str]) -> None:
    """Compare the presets of this checkout with the declared ones; comments may differ.

    Raises:
        CampaignError: a claim with runs has another preset here.
    """
    for claim, commit in queue.items():
        if preset_at(None, claim) != preset_at(commit, claim) and has_begun(claim, commit):
            raise CampaignError(changed_preset(claim, commit))


def changed_preset(claim: str, commit: str) -> str:
    """The sentence on a preset that has changed after its first run."""
    return (
        f"{claim}: {PRESETS}/{claim}.yaml differs from commit {commit[:10]}, under which its runs were begun; "
        "restore it, and give the changed one a new name with a note why"
    )


def preset_at(commit: str | None, claim: str) -> list[Any] | None:
    """A preset and the claims that it includes, without comments, at a commit or in this checkout; None if missing."""
    file = f"{PRESETS}/{claim}.yaml"
    if commit is None:
        text = (ROOT / file).read_text() if (ROOT / file).is_file() else None
    else:
        done = subprocess.run(
            ["git", "show", f"{commit}:{file}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        text = None if done.returncode else done.stdout
    if text is None:
        return None
    preset, place = yaml.safe_load(text), "/experiment/claims/"
    included = [each.removeprefix(place) for each in preset.get("defaults", []) if str(each).startswith(place)]
    return [preset, *(preset_at(commit, each) for each in included)]


def has_begun(claim: str, commit: str) -> bool:
    """Whether a claim has an archive, or a run folder here."""
    if any((MEASURED / claim).glob("seed*.tar.xz")):
        return True
    return any((RUNS / cell.folder).exists() for cell in cells({claim: commit}))


# Runs


def git(*words: str) -> str:
    """Output of a git command in this checkout.

    Raises:
        CampaignError: it fails.
    """
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CampaignError(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


def worktree(commit: str) -> Path:
    """The worktree of a commit, made if missing.

    Raises:
        CampaignError: files of it were edited.
    """
    tree = WORK / commit[:12]
    if not tree.exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", str(tree), commit)
    if changes := git("-C", str(tree), "status", "--porcelain"):
        raise CampaignError(f"{tree} was edited ({changes.splitlines()[0].strip()}): git -C {tree} checkout .")
    return tree


def environment(tree: Path) -> dict[str, str]:
    """Environment of the commands of a worktree: its own package, one thread."""
    return os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}


_CELLS: dict[tuple[str, str], list[Cell]] = {}
"""runs by claim and commit, which take seconds to compose"""


def cells(queue: Mapping[str, str]) -> list[Cell]:
    """The runs of claims, by claim and seed; the code of their commits names them."""
    for commit in dict.fromkeys(queue.values()):
        names = [claim for claim in queue if queue[claim] == commit and (claim, commit) not in _CELLS]
        if not names:
            continue
        tree, command = worktree(commit), [sys.executable, "experiments/campaign.py", "cells", *names]
        done = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, text=True, check=False)
        if done.returncode:
            raise CampaignError(
                f"commit {commit[:10]}: {done.stderr.strip().splitlines()[-1]}; {sys.executable} ran it"
            )
        members = [Cell(**entry | {"words": tuple(entry["words"])}) for entry in json.loads(done.stdout)]
        for name in names:
            of_claim = [cell for cell in members if cell.claim == name]
            _CELLS[name, commit] = sorted(of_claim, key=lambda cell: cell.seed)
    return [cell for claim, commit in queue.items() for cell in _CELLS[claim, commit]]


def print_cells(claims: Sequence[str]) -> None:
    """Print the runs of claims as JSON, by the package of this worktree."""
    import itertools

    from attnlab.config.command_line_words import as_text, read_overrides
    from attnlab.config.compose import compose_with_hydra
    from attnlab.config.shipped_files import CONF
    from attnlab.config.sweep import check_command

    found = []
    for claim in claims:
        experiment = f"experiment=claims/{claim}"
        params = compose_with_hydra([experiment])[1]["params"]
        items, _ = read_overrides([f"{key}={value}" for key, value in params.items()], CONF)
        words = [
            [as_text(item, value) for item, value in zip(items, values, strict=True)]
            for values in itertools.product(*(item.values for item in items))
        ]
        jobs = check_command(["-m", experiment, *PLACES]).jobs
        for job, line in zip(jobs, words, strict=True):
            guess = job.raw["cost"]["ms_a_step"] if job.raw.get("cost") else None
            hours = sum(guess) / len(guess) * job.raw["train"]["max_steps"] / 3.6e6 if guess else None
            entry = {"claim": claim, "words": line, "seed": job.raw["seed"], "model": job.raw["model"]["name"]}
            found.append(entry | {"folder": str(job.folder.relative_to("../../runs")), "hours": hours})
    print(json.dumps(found))


def pending() -> Iterator[Cell]:
    """Runs without an outcome, in order; claims that are added meanwhile come at the end."""
    seen: set[str] = set()
    while claim := next((each for each in read_queue() if each not in seen), None):
        seen.add(claim)
        yield from (cell for cell in cells({claim: read_queue()[claim]}) if cell.outcome() is None)


def begin(cell: Cell, lock: TextIO) -> subprocess.Popen[bytes]:
    """Start a run. It holds the lock too, and is stopped when this process ends."""
    tree = worktree(read_queue()[cell.claim])
    command = [sys.executable, "train.py", f"experiment=claims/{cell.claim}", *cell.words, *PLACES]
    with OUTPUT.open("ab") as output:
        return subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
            preexec_fn=_stopped_with_parent,  # noqa: PLW1509  this process has one thread
        )


def take_lowest_priority() -> None:
    """Give this process and its runs the lowest priority, also where Linux shares processors among sessions."""
    os.nice(19)
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def _stopped_with_parent() -> None:
    """Ask Linux to send SIGTERM to this process when its parent ends, also by SIGKILL."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def run() -> int:
    """Train all pending runs, as many at once as cores; returns the exit code."""
    lock = acquire(LONGEST_STOP)
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    take_lowest_priority()
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: stopping.append(number))
    todo = pending()
    running: dict[subprocess.Popen[bytes], Cell] = {}
    failed: list[Cell] = []
    archive_seeds()
    is_last = False
    while not stopping and (running or not is_last):
        while not stopping and not is_last and len(running) < len(os.sched_getaffinity(0)):
            if (cell := next(todo, None)) is None:
                is_last = True
            else:
                running[begin(cell, lock)] = cell
                log(f"begun: {cell.name}")
        for process in [each for each in running if each.poll() is not None]:
            cell = running.pop(process)
            outcome = cell.outcome()
            if outcome is None:
                failed.append(cell)
            log(f"{outcome or f'failed with exit code {process.returncode}, see {OUTPUT.name}'}: {cell.name}")
            archive_seeds(cell)
        time.sleep(0.5)
    for process in running:
        process.terminate()
    for process in running:
        process.wait()
    log(f"stopped by {signal.Signals(stopping[0]).name}" if stopping else f"ended, {len(failed)} runs failed")
    return 128 + stopping[0] if stopping else int(bool(failed))


def log(sentence: str) -> None:
    """Append a line with the time to the log."""
    with LOG.open("a") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {sentence}\n")


def acquire(seconds: float) -> TextIO:
    """The lock of the campaign, which its runs hold too.

    Raises:
        CampaignError: another process still holds it after some seconds.
    """
    WORK.mkdir(parents=True, exist_ok=True)
    lock, end = LOCK.open("a+"), time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if time.monotonic() > end:
                lock.close()
                raise CampaignError("the campaign is running") from None
            time.sleep(0.2)


def replace(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(content)
    part.replace(path)


# Archives


def archive_seeds(cell: Cell | None = None) -> None:
    """Write the archive of every seed that is complete and has none, of all claims or of the seed of a run."""
    queue = read_queue()
    for claim in queue if cell is None else [cell.claim]:
        by_seed: dict[int, list[Cell]] = {}
        for each in cells({claim: queue[claim]}):
            if cell is None or cell.seed == each.seed:
                by_seed.setdefault(each.seed, []).append(each)
        for seed, members in by_seed.items():
            archive = MEASURED / claim / f"seed{seed}.tar.xz"
            if not archive.exists() and all(member.outcome() for member in members):
                archive.parent.mkdir(parents=True, exist_ok=True)
                replace(archive, packed(sorted(member.folder for member in members)))
                log(f"written: {archive.relative_to(ROOT)}, {archive.stat().st_size:,} bytes")
                make_report(claim, queue[claim])


def packed(folders: Sequence[str]) -> bytes:
    """A tar.xz file of run folders, the same bytes for the same files; without the process and the machine."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        for folder in folders:
            for file in (RUNS / folder / name for name in FILES if (RUNS / folder / name).exists()):
                data = file.read_bytes()
                if file.name == "status.json":
                    status = {key: value for key, value in json.loads(data).items() if key not in ("pid", "host")}
                    data = json.dumps(status, indent=2).encode() + b"\n"
                entry = tarfile.TarInfo(f"{folder}/{file.name}")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def make_report(claim: str, commit: str) -> None:
    """Write the report of a claim as it stands into `REPORTS`."""
    tree = worktree(commit)
    command = [sys.executable, "report.py", f"experiment=claims/{claim}", *PLACES[:3], f"out={REPORTS / claim}"]
    with OUTPUT.open("ab") as output:
        done = subprocess.run(
            command, cwd=tree, env=environment(tree), stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        log(f"no report of {claim}: exit code {done.returncode}, see {OUTPUT.name}")


def restore() -> int:
    """Unpack the run folders of all archives that are not in `RUNS`; returns their number."""
    from attnlab.report.run_archives import unpack

    return sum(unpack(archive, RUNS) for archive in sorted(MEASURED.glob("*/seed*.tar.xz")))


# Commands


def start(claims: Sequence[str], commit: str | None) -> None:
    """Declare claims, unpack archives, and start or go on in the background.

    Raises:
        CampaignError: no claims, or a preset that has changed after its first run.
    """
    if claims:
        declare(claims, commit or "HEAD")
    elif commit:
        raise CampaignError("--commit needs the names of claims")
    if not (queue := read_queue()):
        raise CampaignError(f"the queue is empty: start with names of {PRESETS}")
    require_unchanged(queue)
    restore()
    link = WORK / "data"
    WORK.mkdir(parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(Path(os.environ.get("ATTNLAB_DATA", ROOT / "data")).resolve())
    left = sum(cell.outcome() is None for cell in cells(queue))
    if is_running():
        print(f"the campaign is running, {left} runs left; added claims come at the end")
        return
    command = [sys.executable, str(HERE / "campaign.py"), "run"]
    with OUTPUT.open("ab") as output:
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    print(f"{left} runs left, running in the background; log: {LOG.relative_to(ROOT)}")


def is_running() -> bool:
    """Whether a campaign runs here, or a run of a killed one is still being saved."""
    try:
        acquire(0).close()
    except CampaignError:
        return True
    return False


def pause() -> None:
    """Stop the campaign, and wait until its runs are saved.

    Raises:
        CampaignError: they did not end in time.
    """
    if not is_running():
        print("the campaign is not running")
        return
    with suppress(ProcessLookupError, ValueError):
        os.kill(int(LOCK.read_text()), signal.SIGTERM)
    acquire(LONGEST_STOP).close()
    print("paused: every run is saved; `start` goes on")


def status() -> None:
    """Print what is done of each claim, runs left and hours of training left."""
    queue = read_queue()
    members = cells(queue)
    print(f"{'running' if is_running() else 'not running'}\n")
    print(f"{'claim':32}{'commit':12}{'done':>10}{'diverged':>10}{'seeds archived':>16}{'core-hours left':>17}")
    total = [0, 0, 0.0]
    for claim, commit in queue.items():
        of_claim = [cell for cell in members if cell.claim == claim]
        outcomes = [cell.outcome() for cell in of_claim]
        done, hours = sum(map(bool, outcomes)), hours_left(of_claim)
        archived = f"{len(list((MEASURED / claim).glob('seed*.tar.xz')))}/{len({cell.seed for cell in of_claim})}"
        left = "unknown" if hours is None else f"{hours:.1f}"
        shares = f"{f'{done}/{len(of_claim)}':>10}{outcomes.count('diverged'):>10}{archived:>16}{left:>17}"
        print(f"{claim:32}{commit[:10]:12}{shares}")
        total = [total[0] + done, total[1] + len(of_claim), total[2] + (hours or 0)]
    print(f"{'all':44}{f'{total[0]}/{total[1]}':>10}{'':26}{total[2]:>17.1f}")
    for cell in members:
        if cell.outcome() is None and cell.status().get("state") == "running" and is_running():
            print(f"now: {cell.name}, last checkpoint at step {cell.status().get('step', 0):,}")


def hours_left(members: Sequence[Cell]) -> float | None:
    """Hours of training of the runs without an outcome: mean of the finished runs of their model, else of the claim,
    else by the guess of the preset, less what unfinished ones have had; None = unknown."""
    seconds: dict[str, list[float]] = {}
    for cell in members:
        if cell.outcome() == "finished":
            taken = json.loads((RUNS / cell.folder / "result.json").read_text())["seconds"]
            for key in (cell.model, ""):
                seconds.setdefault(key, []).append(taken)
    hours = 0.0
    for cell in members:
        if cell.outcome() is None:
            known = seconds.get(cell.model) or seconds.get("")
            expected = sum(known) / len(known) / 3600 if known else cell.hours
            if expected is None:
                return None
            hours += max(expected - cell.status().get("seconds", 0) / 3600, 0)
    return hours


def main(argv: Sequence[str]) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(usage=(__doc__ or "").split("\n\n")[1], description=__doc__.split("\n\n", 2)[2])
    parser.add_argument("command", choices=("start", "status", "pause", "restore", "run", "cells"))
    parser.add_argument("claims", nargs="*")
    parser.add_argument("--commit")
    options = parser.parse_args(argv)
    if options.command not in ("start", "cells") and (options.claims or options.commit):
        parser.error(f"{options.command} takes no other words")
    try:
        match options.command:
            case "start":
                start(options.claims, options.commit)
            case "status":
                status()
            case "pause":
                pause()
            case "restore":
                print(f"{restore()} run folders unpacked into {RUNS.relative_to(ROOT)}")
            case "run":
                return run()
            case "cells":
                print_cells(options.claims)
    except CampaignError as error:
        print(f"campaign.py: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
