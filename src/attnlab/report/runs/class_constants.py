"""Constants that a class declares, such as a task's `version`, read from its source: a report imports no torch."""

import ast
from functools import cache
from pathlib import Path
from typing import Any

from attnlab.config.targets import find_module


@cache
def class_constant(path: str, name: str) -> Any:
    """A literal attribute of the class at a dotted path, or of a base in its own package or in attnlab.

    Returns:
        None if there is no such class or attribute, or its value is no literal.
    """
    module, _, class_name = path.rpartition(".")
    spec = find_module(module)
    try:
        tree = ast.parse(Path((spec and spec.origin) or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    sources = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == class_name:
            constants = [constant for item in node.body if (constant := _assigned(item, name)) is not None]
            names = [ast.unparse(base).partition("[")[0] for base in node.bases]
            bases = [sources.get(base, f"{module}.{base}") for base in names]
            ours = [base for base in bases if base.partition(".")[0] in (module.partition(".")[0], "attnlab")]
            inherited = (class_constant(base, name) for base in ours)
            return next((value for value in (*constants, *inherited) if value is not None), None)
    return None


def _assigned(item: ast.stmt, name: str) -> Any:
    """The literal that a statement gives to a name; None if it gives it none."""
    match item:
        case (
            ast.Assign(targets=[ast.Name(id=target)], value=value)
            | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
        ) if target == name:
            try:
                return ast.literal_eval(value)
            except ValueError:
                return None
    return None
