"""Reader of the tables of facts in yaml files, each beside the module that uses it under the same name."""

from pathlib import Path
from typing import Any

import yaml

# the loader of libyaml is ten times faster
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def table_beside(module: str) -> dict[str, Any]:
    """The table of a module.

    Args:
        module: its `__file__`.
    """
    return yaml.load(Path(module).with_suffix(".yaml").read_text(encoding="utf-8"), LOADER)
