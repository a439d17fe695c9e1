"""Output into a closed pipe: `python train.py --help | head`."""

import os
import subprocess
import sys

import pytest
from support.slow_cases import slow_except
from support.small_runs import ROOT, environment

from attnlab.run_script import UNREAD, exit_code_of

COMMANDS = (
    "train.py --help",
    "evaluate.py --help",
    "report.py --help",
    "-m attnlab.tasks --help",
    "train.py --cfg job",
)


@pytest.mark.parametrize("line", slow_except(COMMANDS, ["report.py --help", "train.py --cfg job"]))
def test_a_closed_pipe_ends_a_command_without_a_word(line: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, *line.split()],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == UNREAD


def test_another_broken_connection_stays_an_error() -> None:
    def main(argv: object) -> int:
        raise BrokenPipeError("of a library")

    with pytest.raises(BrokenPipeError, match="of a library"):
        exit_code_of(main, [])
