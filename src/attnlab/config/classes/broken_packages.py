"""Installed packages that cannot be imported, such as a torchvision that was built for another torch.

Lightning imports torchmetrics, and that imports torchvision wherever it is installed, though nothing here needs it.
"""

import re
import traceback
from importlib import metadata

from attnlab.config.message_text import first_line
from attnlab.config.targets import allowed_packages


def import_problem(error: BaseException) -> str:
    """The sentence on a package whose import raised an error: its version, who imports it, what to do.

    Empty for an error that was raised elsewhere, and by modules of attnlab or of the user's packages.
    """
    modules = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "<module>"]
    packages = [str(frame.f_globals.get("__name__")).partition(".")[0] for frame in modules]
    ours = [*allowed_packages(), "__main__"]
    if not packages or packages[-1] in ours:
        return ""
    package = packages[-1]
    importers = [name for name in packages if name not in (*ours, package)]
    by = f", which {importers[-1]} imports," if importers else ""
    beside = "" if package == "torch" else f" beside {_with_version('torch')}"
    text = f"{_with_version(package)}{by} cannot be imported{beside} ({type(error).__name__}: {first_line(error)})"
    if importers and _key(package) not in _requirements(importers[-1]):
        return f"{text}; nothing here needs it: pip uninstall {package}, or install versions that fit each other"
    return f"{text}; install versions that fit each other"


def _with_version(package: str) -> str:
    """The package with its version, where it is installed under its own name."""
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package


def _requirements(package: str) -> set[str]:
    """Names of the packages that a package cannot do without."""
    try:
        lines = metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return set()
    return {_key(re.split(r"[^\w.-]", line)[0]) for line in lines if "extra ==" not in line}


def _key(name: str) -> str:
    """The name of a package in the spelling that all its spellings have in common."""
    return re.sub(r"[-_.]+", "_", name).lower()
