"""The other processes of a run on several devices of this machine, where no torchrun or srun has started them.

Lightning's own launcher is not used: it repeats the whole command line (in a sweep: the sweep), leaves variables in
this process, and kills it when another one fails, so that nothing is recorded.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from attnlab.config.command_line.command_frame import FAILED
from attnlab.config.job_config import JobConfig
from attnlab.config.message_text import short_path
from attnlab.learn.devices.rank_layout import RankError, RankLayout, RankWatch
from attnlab.learn.stop_signals import Stopped
from attnlab.run.run_folder import RunFolder

MODULE = "attnlab.launch.rank_process"
GRACE_SECONDS = 5.0
"""between the end of a process and the end of this one, which may wait for it; and between an error here and the end of
the process that caused it"""
HANG_SECONDS = 60.0
"""after the end of a process, until this one has noticed it or hangs"""
_POLL_SECONDS = 0.1


class RankProcesses(RankWatch):
    """Ranks 1, 2, ... of a run, which this process, rank 0, has started.

    If one of them ends with an error, this process notices a lost connection and asks for its `fault`. If it does not
    notice, because it hangs, a thread records the end of the run and ends this process.

    Args:
        job: the run.
        layout: the place of this process, with the port on which it listens.
    """

    def __init__(self, job: JobConfig, layout: RankLayout) -> None:
        self.job = job
        self._noticed, self._fault = threading.Event(), threading.Event()
        self._cause: BaseException | None = None
        self.processes = {rank: _started(job, layout, rank) for rank in range(1, layout.world)}
        threading.Thread(target=self._watch, daemon=True).start()

    def leave(self) -> None:
        self._noticed.set()

    def ended(self) -> BaseException | None:
        if self._cause is not None:
            self._noticed.set()
        return self._cause

    def fault(self) -> BaseException | None:
        self._noticed.set()
        self._fault.wait(GRACE_SECONDS)
        return self._cause

    def close(self, failed: bool) -> None:
        """Wait for the end of the processes, which have written nothing; after an error, end them."""
        self._noticed.set()
        for process in self.processes.values():
            if not failed:
                try:
                    process.wait(GRACE_SECONDS)
                    continue
                except subprocess.TimeoutExpired:
                    pass
            process.kill()
            process.wait()

    def _watch(self) -> None:
        while self._cause is None:
            time.sleep(_POLL_SECONDS)
            codes = {rank: process.poll() for rank, process in self.processes.items()}
            self._cause = next((_fault(rank, code) for rank, code in codes.items() if code), None)
            if all(code == 0 for code in codes.values()):
                return
        self._fault.set()
        if not self._noticed.wait(HANG_SECONDS):
            self._end_all(self._cause)

    def _end_all(self, fault: BaseException) -> None:
        """Record how the run ended, and end this process: its main thread waits for a process that is gone."""
        for process in self.processes.values():
            process.kill()
        folder, signum = RunFolder(self.job.folder), fault.signum if isinstance(fault, Stopped) else 0
        try:
            # There is none if a process has ended before the run began.
            if folder.status_file.exists():
                folder.record_end(fault)
            outcome = "stopped" if signum else "failed"
            print(f"\n{outcome}: {short_path(folder.path)}\n  {fault}", file=sys.stderr, flush=True)
        finally:
            os._exit(128 + signum if signum else FAILED)


def _started(job: JobConfig, layout: RankLayout, rank: int) -> "subprocess.Popen[bytes]":
    """The process of a rank, in a session of its own: Ctrl-C reaches this process, which stops all of them."""
    host, port = layout.address
    names = {"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": rank, "LOCAL_RANK": rank}
    names |= {"WORLD_SIZE": layout.world, "LOCAL_WORLD_SIZE": layout.world}
    # the same modules as here, however this process was started
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment = os.environ | {name: str(value) for name, value in names.items()} | paths
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", MODULE], stdin=subprocess.PIPE, env=environment, start_new_session=True
    )
    task = {"raw": job.raw, "report": job.report, "conf": str(job.conf), "threads": job.typed.trainer.threads}
    task["parent"] = os.getpid()
    assert process.stdin is not None
    # the watch says why a process has ended already
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps(task).encode())
        process.stdin.close()
    return process


def _fault(rank: int, code: int) -> BaseException:
    """The error of a run of which a process has ended."""
    if code > 128:
        return Stopped(code - 128)
    if code < 0:
        why = " (was there too little memory?)" if code == -signal.SIGKILL else ""
        how = f"was killed by {signal.Signals(-code).name}{why}"
    else:
        how = f"ended with exit code {code}; its message is above"
    return RankError(f"the process of rank {rank} {how}; repeat the command to go on from the last checkpoint")


@contextmanager
def other_ranks(job: JobConfig, layout: RankLayout) -> Iterator[tuple[RankLayout, RankProcesses, int]]:
    """Start ranks 1, 2, ... of a run; they have ended after this block.

    Yields:
        the layout with the port, the processes, and the file of the socket on which rank 0 has to listen.
    """
    listening = _listening_socket()
    layout = replace(layout, address=("127.0.0.1", listening.getsockname()[1]))
    processes = RankProcesses(job, layout)
    failed = True
    try:
        # the store closes the file
        yield layout, processes, listening.detach()
        failed = False
    finally:
        processes.close(failed)


def _listening_socket() -> socket.socket:
    """A socket on a free port of this machine; it is open from the start, so that no other program takes the port."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener
