"""Reader of the tables of facts in yaml files, each in the folder of the module that uses it."""

from pathlib import Path
from typing import Any

import yaml

# the loader of libyaml is ten times faster
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def table_beside(module: str, name: str | None = None) -> dict[str, Any]:
    """A table in the folder of a module.

    Args:
        module: its `__file__`.
        name: of the yaml file; None = the name of the module.
    """
    file = Path(module).with_name(name or f"{Path(module).stem}.yaml")
    return yaml.load(file.read_text(encoding="utf-8"), LOADER)
