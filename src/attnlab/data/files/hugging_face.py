"""Loads data sets of the Hugging Face hub at one commit of their repository, with the package `datasets`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from attnlab.data.files.fetch import DataError

PATIENCE = 5
"""seconds to wait for an answer of the hub"""


class HubData:
    """A data set of the hub, loaded at its first use; `where` is its origin, `identity` a part of cache keys.

    Args:
        advice: end of the message if it cannot be loaded.
    """

    def __init__(self, name: str, configuration: str, revision: str, advice: str) -> None:
        self.name, self.configuration, self.revision, self.advice = name, configuration, revision, advice
        self.where = f"Hugging Face {name} at {revision[:12]}"
        self.identity = [name, revision, configuration]

    @cached_property
    def splits(self) -> Mapping[str, Any]:
        """The splits by name. Raises DataError: the hub or the package is not available."""
        try:
            return load_from_hub(self.name, self.configuration, self.revision)
        except Exception as error:
            # the package passes on many kinds of errors of its dependencies
            reason = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            problem = f"{self.name} ({self.configuration}) could not be loaded ({reason})"
            raise DataError(f"{problem}. {self.advice}") from error


def load_from_hub(name: str, configuration: str, revision: str) -> Mapping[str, Any]:
    """The splits of a data set at one commit; from the cache of the package if the hub does not answer.

    Raises:
        ConnectionError: the hub does not answer, and no earlier download is cached.
        Exception: any other error of the package and its dependencies; another commit in an old cache.
    """
    import datasets
    from huggingface_hub import constants

    if problem := _unreachable(constants.ENDPOINT):
        try:
            # otherwise five attempts with pauses delay the message by half a minute
            with _offline(datasets.config, constants):
                splits = datasets.load_dataset(name, configuration, revision=revision)
        except ConnectionError as error:
            reason = str(error).partition("\n")[0]
            raise ConnectionError(f"{reason}; {constants.ENDPOINT} does not answer ({problem})") from error
    else:
        splits = datasets.load_dataset(name, configuration, revision=revision)
    for split in splits.values():
        for source in split.info.download_checksums or ():
            if "@" in source and f"@{revision}/" not in source:
                raise ValueError(f"another edition than {revision} is there: {source}")
    return splits


def _unreachable(endpoint: str) -> str:
    """Name of the error if the hub cannot be reached; empty if it answers or `HF_HUB_OFFLINE` is set."""
    import requests

    if os.environ.get("HF_HUB_OFFLINE"):
        return ""
    try:
        requests.head(endpoint, timeout=PATIENCE)
    except requests.RequestException as error:
        return type(error).__name__
    return ""


@contextmanager
def _offline(*modules: Any) -> Iterator[None]:
    """Sets `HF_HUB_OFFLINE` in modules; the environment variable is read only at import."""
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
