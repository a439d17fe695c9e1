"""What runs that are trained together share, and their training."""

import gc
from collections.abc import Sequence

import numpy as np
import torch

from attnlab.config.schema import Config
from attnlab.launch.pack.checkpoint import PackCheckpoints, PackSaving
from attnlab.launch.pack.member import ForMembers, Member, MemberReporter
from attnlab.launch.pack.memory_estimate import most_members
from attnlab.launch.pack.network_stack import NetworkStack
from attnlab.launch.pack.packed_module import PackModule
from attnlab.launch.pack.pending_run import Entry, SharedTime, by_step, fail
from attnlab.learn.callbacks import RandomState
from attnlab.learn.lightning_trainer import make_trainer
from attnlab.learn.objectives import objective_for
from attnlab.learn.stop_signals import Stopped, StopRequest
from attnlab.learn.training_module import NonFiniteLoss
from attnlab.learn.training_progress import Reporter, TrainProgress
from attnlab.run.fit import Listen, batch_order, make_loader, say_what_is_compiled, with_steps
from attnlab.run.read_checkpoints import read_checkpoint
from attnlab.run.run_folder import RunError
from attnlab.run.run_lifecycle import Session, begin, device_of, open_session, record_result, size_line
from attnlab.run.runtime import place_data, prepared_task, seed_everything


class Shared:
    """What the runs of a pack have in common: device, data, reporter.

    Raises:
        RunError, DataError: there is no such device, or the data cannot be had.
    """

    def __init__(self, entry: Entry, stop: StopRequest) -> None:
        self.stop, self.reporter = stop, Reporter(entry.config.trainer.progress)
        self.device = device_of(entry.config)
        self.task, prepared = prepared_task(entry.config)
        self.prepared = place_data(prepared, self.device, entry.config.trainer.data_on_device)
        self.config: Config = with_steps(entry.config, self.prepared)

    def most(self) -> int:
        """How many runs fit into memory."""
        self._free()
        return most_members(self.config, self.prepared, batch_order(self.config, self.prepared), self.device)

    def train(self, entries: Sequence[Entry]) -> None:
        """Train and test runs that are at the same step; if they do not fit into memory, in halves."""
        short = ""
        try:
            self._train(entries)
        except torch.OutOfMemoryError as error:
            short = str(error)
        # Only here: while the error is handled, it holds what the attempt has allocated.
        self._free()
        left = [entry for entry in entries if entry.code is None]
        if left and len(entries) == 1:
            fail(left, RunError(f"one run alone is too large for the memory ({short}); lower train.batch_size"))
            return
        half = (len(left) + 1) // 2
        if left:
            self.reporter.say(f"{len(left)} runs do not fit into memory together; going on with {half} at once")
        for entry in left:
            entry.look_up_step()
        # Some may have been saved, and others not: only runs at the same step go on together.
        for group in by_step(left):
            for first in range(0, len(group), half):
                self.train(group[first : first + half])

    def _free(self) -> None:
        """Give back what earlier packs have allocated, their compiled steps too: no later one is of their shape."""
        gc.collect()
        if self.device.type == "cuda":
            if self.config.trainer.compile:
                torch._dynamo.reset()
            torch.cuda.empty_cache()

    def _train(self, entries: Sequence[Entry]) -> None:
        time_of_pack = SharedTime()
        members: dict[Entry, Member] = {}
        try:
            for entry in entries:
                try:
                    members[entry] = Member(self._session(entry), time_of_pack)
                except torch.OutOfMemoryError:
                    raise
                except Exception as error:
                    fail([entry], error)
            if members:
                self._fit(list(members.values()), time_of_pack)
                self._test(members)
        except torch.OutOfMemoryError:
            for entry, member in members.items():
                if not member.lives:
                    entry.end(member.error)
            raise
        except Exception as error:
            fail([entry for entry in members if entry.code is None], error)
        finally:
            for entry, member in members.items():
                member.session.close(failed=entry.code != 0)

    def _session(self, entry: Entry) -> Session:
        reporter = MemberReporter(self.reporter, entry.name)
        begin(entry.folder, reporter)
        data = (self.task, self.prepared)
        return open_session(entry.job, entry.folder, data, self.device, reporter, self.stop)

    def _fit(self, members: list[Member], time_of_pack: SharedTime) -> None:
        """Train until the last step; members that could not go on have an error."""
        step, max_steps = members[0].session.step, self.config.train.max_steps
        if step >= max_steps:
            return
        self.reporter.say(f"each run has {size_line(members[0].run.network, self.device)}")
        members[0].session.evaluator.try_longest()
        weights = [member.run.config.model.ortho.weight for member in members]
        networks = [member.run.network for member in members]
        stack = NetworkStack(networks, objective_for(self.prepared.spec), model=weights.index(max(weights)))
        saved = [read_checkpoint(member.run.folder.checkpoint) for member in members] if step else []
        for member, state in zip(members, saved, strict=False):
            member.restore(state)
        train, what = self.config.train, f"training {len(members)} runs"
        checkpoints = PackCheckpoints(members, stack, saved)
        callbacks = [
            Listen(self.stop),
            RandomState(),
            TrainProgress(self.reporter, max_steps, what),
            ForMembers(members, time_of_pack.pass_on),
            PackSaving(checkpoints, train.checkpoint_every, max_steps, self.stop.pending),
        ]
        seed_everything(_seed([(member.run.config.seed, step) for member in members]))
        trainer = make_trainer(self.config, self.device, callbacks, [checkpoints], self.reporter.say)
        loader = make_loader(self.config, self.prepared, PackOrder(members), step, self.device, self.reporter.say)
        say_what_is_compiled(self.config, self.reporter.say)
        path = str(members[0].run.folder.checkpoint) if step else None
        try:
            trainer.fit(PackModule(members, stack), loader, ckpt_path=path, weights_only=True)
        except NonFiniteLoss:
            if any(member.lives for member in members):
                raise
        finally:
            self.stop.deferred = False
            self.reporter.stop()
        if (signum := self.stop.pending()) is not None:
            raise Stopped(signum)

    def _test(self, members: dict[Entry, Member]) -> None:
        together = {"members": len(members)}
        for entry, member in members.items():
            with member.guarded():
                if member.lives:
                    record_result(member.session, packed=together)
            entry.end(member.error)


class PackOrder:
    """Batches of all runs, one after another, each in the order of its own seed."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.orders = [member.order for member in members]

    def __getitem__(self, batch: int) -> np.ndarray:
        return np.concatenate([order[batch] for order in self.orders])


def _seed(numbers: Sequence[tuple[int, int]]) -> int:
    """One seed out of those of all runs, for the dropout of a pack."""
    return int(np.random.SeedSequence([n for pair in numbers for n in pair]).generate_state(1, np.uint32)[0])
