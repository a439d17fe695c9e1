"""Trainer of a pack: training and final test of runs that share device and data."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from attnlab.config.training_steps import steps_of
from attnlab.launch.device_errors import lacks_memory, needs_less_at_once, too_large
from attnlab.launch.pack.checkpoint import PackCheckpoints, PackSaving
from attnlab.launch.pack.member import ForMembers, MemberReporter, PackMember, SharedTime
from attnlab.launch.pack.memory_estimate import most_members
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.packed_module import PackedModule
from attnlab.launch.pack.pending_run import PendingRun, by_step, end_all, not_ended
from attnlab.learn.callbacks import TrainProgress
from attnlab.learn.devices.memory_use import free_earlier_jobs
from attnlab.learn.objectives import objective_for
from attnlab.learn.reporter import Reporter
from attnlab.learn.speed_notes import speed_notes
from attnlab.learn.stop_signals import StopRequest
from attnlab.run.build_runtime import seed_everything
from attnlab.run.final_test import record_result
from attnlab.run.fit import batch_order, train, with_steps
from attnlab.run.read_checkpoints import read_checkpoint
from attnlab.run.run_context import RunContext
from attnlab.run.run_folder import RunError
from attnlab.run.train_run import open_run, open_runtime, record_start, size_line


class PackTrainer:
    """Trains and tests runs together; device, data and reporter are the same for all of them.

    Args:
        label: as in `run_pack`.

    Raises:
        RunError, DataError: there is no such device, or the data is not available.
    """

    def __init__(self, first: PendingRun, stop: StopRequest, label: str = "") -> None:
        self.stop, self.reporter = stop, Reporter(first.config.trainer.progress, label)
        free_earlier_jobs()
        self.runtime = open_runtime(first.config)
        self.config = with_steps(first.config, self.runtime.prepared)

    def most(self) -> int:
        """Returns how many runs fit into memory."""
        prepared = self.runtime.prepared
        return most_members(self.config, prepared, batch_order(self.config, prepared), self.runtime.device)

    def train(self, runs: Sequence[PendingRun]) -> None:
        """Train and test runs that are at the same step; if they are too large together, in halves."""
        reason, alone = "do not fit into memory", ""
        try:
            self._train(runs)
        except Exception as error:
            if not (said := too_large(error)):
                raise
            alone = f"one run alone {said}"
            reason = reason if lacks_memory(error) else "are more than a kernel of the GPU takes"
        # After the except block: until its end, the error holds what the attempt has allocated.
        free_earlier_jobs()
        left = not_ended(runs)
        if left and len(runs) == 1:
            end_all(left, RunError(alone))
            return
        half = (len(left) + 1) // 2
        if left:
            self.reporter.say(f"{len(left)} runs {reason} together; going on with {half} at once")
        for run in left:
            run.look_up_step()
        # Some may have been saved, and others not: only runs at the same step are trained together.
        for group in by_step(left):
            for first in range(0, len(group), half):
                self.train(group[first : first + half])

    def _train(self, runs: Sequence[PendingRun]) -> None:
        clock = SharedTime()
        members: list[PackMember] = []
        try:
            for run in runs:
                try:
                    members.append(PackMember(run, self._open(run), clock))
                except Exception as error:
                    if needs_less_at_once(error):
                        raise
                    run.end(error)
            if members:
                self._fit(members, clock)
                self._test(members)
        except Exception as error:
            if needs_less_at_once(error):
                for member in members:
                    if not member.active:
                        member.pending.end(member.error)
                raise
            end_all([member.pending for member in members], error)
        finally:
            for member in members:
                member.run.close(failed=member.pending.code != 0)

    def _open(self, run: PendingRun) -> RunContext:
        reporter = MemberReporter(self.reporter, run.name)
        record_start(run.folder, reporter, run.job.report)
        return open_run(run.job, run.folder, self.runtime, reporter, self.stop)

    def _fit(self, members: list[PackMember], clock: SharedTime) -> None:
        """Train until the last step; members that stopped early have an error."""
        first, options, max_steps = members[0].run, self.config.train, steps_of(self.config.train)
        if first.step >= max_steps:
            return
        self.reporter.say(f"each run has {size_line(first.network, first.device)}")
        for note in speed_notes(self.config, len(self.runtime.prepared.subsets["train"]), first.device):
            self.reporter.say(note)
        first.evaluator.try_longest()
        weights = [member.run.config.model.ortho.weight for member in members]
        networks = [member.run.network for member in members]
        stack = NetworkStack(networks, objective_for(first.prepared.spec), model=weights.index(max(weights)))
        saved = [read_checkpoint(member.run.folder.checkpoint) for member in members] if first.step else []
        for member, state in zip(members, saved, strict=False):
            member.restore(state)
        checkpoints = PackCheckpoints(members, stack, saved)
        callbacks = [
            TrainProgress(self.reporter, max_steps, f"training {len(members)} runs"),
            ForMembers(members, clock.pass_on),
            PackSaving(options.checkpoint_every, max_steps, self.stop.pending, checkpoints),
        ]
        seed_everything(_seed([(member.run.config.seed, first.step) for member in members]))
        pack = replace(first, reporter=self.reporter)
        train(pack, PackedModule(members, stack), PackOrder(members), callbacks, [checkpoints])

    def _test(self, members: Sequence[PackMember]) -> None:
        for member in members:
            with member.guarded():
                if member.active:
                    record_result(member.run, packed={"members": len(members)})
            member.pending.end(member.error)


class PackOrder:
    """Batches of all runs, one after another, each in the order that its own seed gives."""

    def __init__(self, members: Sequence[PackMember]) -> None:
        self.orders = [member.order for member in members]

    def __getitem__(self, batch: int) -> np.ndarray:
        return np.concatenate([order[batch] for order in self.orders])


def _seed(numbers: Sequence[tuple[int, int]]) -> int:
    """Seed for the dropout of a pack, from seeds and steps of all its runs."""
    return int(np.random.SeedSequence([n for pair in numbers for n in pair]).generate_state(1, np.uint32)[0])
