"""The runs of claims and pilots, as the code of their commits names them."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.report.runs.read_runs import DIVERGED
from attnlab.run import run_lock
from background.places import PILOT_RUNS, PILOTS, ROOT, RUNS, WORK, CampaignError, git, read_json, replace
from background.worktrees import environment, worktree

if TYPE_CHECKING:
    from attnlab.config.job_config import JobConfig


@dataclass(frozen=True)
class Cell:
    """One run of a claim.

    claim:    the name of its preset.
    commit:   that declares the claim.
    words:    of the command line, beside the experiment.
    folder:   below `RUNS`, of a pilot below `PILOT_RUNS`.
    step:     seconds, guessed (`cost.ms_a_step`); None = no guess.
    from_run: the folder of the run that it begins with, or whose tokenizer it reads, below the same; None = of none.
    """

    claim: str
    commit: str
    words: tuple[str, ...]
    seed: int
    model: str
    folder: str
    steps: int
    step: float | None
    from_run: str | None = None

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
            from_run=source_of(job, runs),
        )
        # campaigns begun with earlier code read entries without `from_run` only
        claim_cells.append({key: value for key, value in asdict(cell).items() if key != "from_run" or value})
    print(json.dumps(claim_cells))


def source_of(job: "JobConfig", runs: Path) -> str | None:
    """The folder below `runs` of the run whose weights or tokenizer a job needs; None without one there."""
    source = job.typed.from_run or job.raw["task"].get("from_run")
    return str(Path(source).relative_to(runs)) if source and Path(source).is_relative_to(runs) else None
