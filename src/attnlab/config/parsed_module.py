"""Source of a module, parsed without an import."""

import ast
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attnlab.config.allowed_targets import TargetError, find_module


@dataclass(frozen=True)
class ParsedModule:
    """Classes, aliases of types and imports at the top of a module, as syntax trees."""

    name: str
    classes: Mapping[str, ast.ClassDef]
    aliases: Mapping[str, ast.expr]
    imports: Mapping[str, tuple[str, str]]


@cache
def parsed_module(name: str) -> ParsedModule | None:
    """The source of a module, parsed; None if there is none.

    Raises:
        TargetError: it cannot be read.
    """
    spec = find_module(name)
    if spec is None or spec.origin is None:
        return None
    origin = Path(spec.origin)
    # The source, also where Python would import a compiled module beside it.
    file = origin.with_name(f"{origin.name.partition('.')[0]}.py")
    if not file.is_file():
        return None
    package = name if spec.submodule_search_locations else name.rpartition(".")[0]
    classes, aliases = {}, {}
    imports: dict[str, tuple[str, str]] = {}
    try:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            match node:
                case ast.ClassDef():
                    classes[node.name] = node
                case ast.Assign(targets=[ast.Name(id=alias)], value=value):
                    aliases[alias] = value
                case ast.ImportFrom():
                    source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
                    imports |= {item.asname or item.name: (source, item.name) for item in node.names}
    except (OSError, SyntaxError, ValueError, ImportError) as error:
        raise TargetError(f"{file} cannot be read: {error}") from None
    return ParsedModule(name, classes, aliases, imports)
