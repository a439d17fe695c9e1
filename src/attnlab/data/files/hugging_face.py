"""Data sets of the Hugging Face hub, through the package `datasets`, each at one commit of its repository."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

PATIENCE = 5
"""seconds that the hub has for an answer"""


def load_from_hub(name: str, configuration: str, revision: str) -> Mapping[str, Any]:
    """The splits of a data set, from the package's own cache where the hub does not answer.

    Args:
        revision: the commit; another one, in that cache perhaps, is refused.

    Raises:
        ConnectionError: the hub does not answer, and there is no copy of an earlier download.
        Exception: whatever else the package and the libraries below it let through.
    """
    import datasets
    from huggingface_hub import constants

    if problem := _unreachable(constants.ENDPOINT):
        try:
            # else five attempts and their pauses, half a minute, come before the message
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
    """Why the hub cannot be reached, in a word; empty where it answers, or may not be asked (`HF_HUB_OFFLINE`)."""
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
    """As with `HF_HUB_OFFLINE=1`, which is read only when the libraries are imported."""
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
