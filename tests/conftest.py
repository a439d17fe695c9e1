"""Set-up of all tests: shape and type checks of the numeric packages, one thread per worker, a fixed seed."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

# Before these packages are imported: every annotated shape and type can then be checked at every call.
jaxtyping.install_import_hook(["attnlab.attention", "attnlab.nn", "attnlab.learn"], "beartype.beartype")
SHAPES_CHECKED_IN = {"attention", "kernels", "laws", "learn", "nn"}
"""folders of tests; in the others, which train whole runs, the checks would take 40 % of the time"""
SHAPES_UNCHECKED = {
    "test_laws_causality.py",
    "test_laws_finite.py",
    "test_laws_padding.py",
    "test_laws_reference.py",
    "test_training.py",
    "test_greedy_decoding.py",
}
"""files there that repeat the calls of others; the checks would take 20 to 40 % of their time"""
# For detailed messages of failed assertions in shared code too.
pytest.register_assert_rewrite("support")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--model", metavar="NAME", help="run the laws alone, for the model of conf/model/NAME.yaml")


def pytest_configure(config: pytest.Config) -> None:
    """Sets what test files read when they are collected: a cache of these tests alone, and the model of `--model`.

    Commands on a run write into the cache of their caller: never into the cache of this checkout.
    """
    cache = tempfile.mkdtemp(prefix="attnlab-tests-")
    config.add_cleanup(lambda: shutil.rmtree(cache))
    os.environ["ATTNLAB_CACHE"] = cache
    if name := config.getoption("--model"):
        from support.composed_configs import select_model

        select_model(name)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `--model` no other tests than the laws are collected."""
    file = collection_path.name
    wanted = file.startswith("test_laws_") and file != "test_laws_coverage.py"
    return True if config.getoption("--model") and collection_path.suffix == ".py" and not wanted else None


def pytest_collection_finish() -> None:
    """What was imported until here stays: the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    checked = folder in SHAPES_CHECKED_IN and item.path.name not in SHAPES_UNCHECKED
    jaxtyping.config.update("jaxtyping_disable", not checked)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The tensors are tiny and pytest-xdist already fills the cores."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.manual_seed(0)


@pytest.fixture
def default_signals() -> Iterator[None]:
    """Signal handlers as in a terminal: nohup and shells that start tests in the background ignore some signals."""
    former = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in former.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny data folder inside, also used for a cache (tests/support/tiny_data.py)."""
    from support.tiny_data import write_data

    folder = tmp_path_factory.mktemp("tiny")
    write_data(folder / "data")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the exemptions of mechanisms from laws, so that none is forgotten; not for the laws of one model."""
    if config.getoption("--model"):
        return
    from support.law_exemptions import EXEMPTIONS

    for (law, mechanism), reason in EXEMPTIONS.items():
        terminalreporter.write_line(f"exempt from the law of {law}: {mechanism} ({reason})")
