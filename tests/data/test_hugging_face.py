"""Data sets of the Hugging Face hub: one fixed commit, no long wait without the hub."""

import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from attnlab.data.files.hugging_face import load_from_hub

datasets = pytest.importorskip("datasets")
constants = pytest.importorskip("huggingface_hub").constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def hub_may_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield
        server.shutdown()


def loads(monkeypatch: pytest.MonkeyPatch, source: str | None) -> list[tuple[object, ...]]:
    """Calls of `load_dataset`, which gives one split that was downloaded from `source`."""
    calls: list[tuple[object, ...]] = []

    def load_dataset(*arguments: object, revision: str) -> dict[str, object]:
        calls.append((*arguments, revision, constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE))
        result = {source: {"num_bytes": 1}} if source else None
        return {"train": SimpleNamespace(info=SimpleNamespace(download_checksums=result))}

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


def test_a_hub_out_of_reach_costs_no_retries(capfd: pytest.CaptureFixture[str]) -> None:
    start = time.monotonic()
    with pytest.raises(ConnectionError) as error:
        load_from_hub("nobody/nothing-of-this-name", "default", COMMIT)
    # the libraries' own five attempts take 24 s
    assert time.monotonic() - start < 10
    assert "Couldn't reach 'nobody/nothing-of-this-name'" in str(error.value)
    assert "http://127.0.0.1:9 does not answer (ConnectionError)" in str(error.value)
    assert "Retry" not in "".join(capfd.readouterr())
    assert (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE) == (False, False)


def test_an_earlier_download_needs_no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = loads(monkeypatch, f"hf://datasets/a/b@{COMMIT}/c/train.parquet")
    assert list(load_from_hub("a/b", "c", COMMIT)) == ["train"]
    assert calls == [("a/b", "c", COMMIT, True, True)]
    assert (constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE) == (False, False)


@pytest.mark.usefixtures("answering")
def test_a_hub_that_answers_is_asked_for_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = loads(monkeypatch, None)
    assert list(load_from_hub("a/b", "c", COMMIT)) == ["train"]
    assert calls == [("a/b", "c", COMMIT, False, False)]


def test_another_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    loads(monkeypatch, "hf://datasets/a/b@fedcba9876543210fedcba9876543210fedcba98/c/train.parquet")
    with pytest.raises(ValueError, match=f"another edition than {COMMIT} is there: .*fedcba9876"):
        load_from_hub("a/b", "c", COMMIT)
