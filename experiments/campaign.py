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

The runs of a claim may begin with those of another claim (`from_run`): they wait for these, which are trained again
where only their archive is left, without weights.

A pilot, conf/experiment/claims/pilots/<claim>.yaml, is not declared: `pilot` trains it from this checkout, on seeds
from 901 on, also beside a campaign; repeated, it goes on. Once all of its runs have an outcome, the folders of all runs
of the pilot are written to experiments/measured/claims/<claim>/pilot.tar.xz, and the report is printed.
"""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from statistics import median

from background.archives import archive_of, archive_unfinished, restore
from background.lock import LOCK, LONGEST_STOP, campaign_process, locked, write_pid
from background.loop import run
from background.pilots import pilot
from background.places import HERE, LOG, OUTPUT, PRESETS, ROOT, RUNS, CampaignError, remove_parts
from background.queue import declare, read_queue, require_unchanged
from background.runs import Cell, cells, print_cells
from background.weights import Retraining, first_of
from background.worktrees import link_data

from attnlab.run_script import exit_code_of


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
    if campaign_process() or not begin_loop():
        print(f"the campaign is running; runs left: {left}")
    else:
        print(f"running in the background; runs left: {left}; log: {LOG.relative_to(ROOT)}")


def begin_loop() -> bool:
    """Start the loop in a process of its own; False if another command did so meanwhile."""
    link_data()
    command = [sys.executable, str(HERE / "campaign.py"), "run"]
    with locked(LOCK, LONGEST_STOP) as lock, OUTPUT.open("ab") as output:
        if campaign_process():
            return False
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
    return True


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
    by_folder = {cell.folder: cell for cell in members}
    first = [first_of(cell, by_folder) for cell in members if cell.outcome() is None]
    again = list(dict.fromkeys(cell for cell in first if isinstance(cell, Retraining)))
    print(f"{'not running' if campaign_process() is None else 'running'}\n")
    print(f"{'claim':32}{'commit':12}{'done':>10}{'diverged':>10}{'seeds archived':>16}{'core-hours left':>17}")
    hours: list[float | None] = []
    for claim, commit in queue.items():
        claim_cells = [cell for cell in members if cell.claim == claim]
        outcomes = [cell.outcome() for cell in claim_cells]
        hours.append(hours_left([*claim_cells, *(cell for cell in again if cell.claim == claim)]))
        seeds = {cell.seed for cell in claim_cells}
        archived = f"{sum(archive_of(claim, seed).exists() for seed in seeds)}/{len(seeds)}"
        left = "unknown" if hours[-1] is None else f"{hours[-1]:.1f}"
        done = f"{sum(map(bool, outcomes))}/{len(claim_cells)}"
        print(f"{claim:32}{commit[:10]:12}{done:>10}{outcomes.count('diverged'):>10}{archived:>16}{left:>17}")
    done = f"{sum(cell.outcome() is not None for cell in members)}/{len(members)}"
    unknown = " and unknown ones" if None in hours else ""
    print(f"{'all':44}{done:>10}{'':26}{sum(filter(None, hours)):>17.1f}{unknown}")
    if waiting := first.count(None):
        print(f"waiting for the runs that they begin with: {waiting}")
    print_unfinished([*members, *again])


def print_unfinished(members: Sequence[Cell]) -> None:
    """Print a line for each run that is being trained, or has failed."""
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
