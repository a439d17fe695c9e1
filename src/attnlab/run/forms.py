"""Forms of what is read from JSON and yaml: which keys there are and of what type."""

import json
from typing import Any

NUMBER = (int, float)
MAYBE = (int, float, type(None))


def mismatch(value: Any, form: Any, where: str = "") -> str | None:
    """How a value of a file differs from a form, as `rows.0.name: missing`; None where it fits.

    Args:
        form: a type; a tuple of forms, one of which fits; [form of every member]; {key: form}, where a key with a
            question mark may be missing and others are allowed.
    """
    problem = None
    match form:
        case tuple():
            found = [mismatch(value, one, where) for one in form]
            # the complaint of the form that got furthest says most
            problem = None if None in found else max(found, key=lambda text: text.count("."))
        case dict() | list() if not isinstance(value, type(form)):
            problem = f"{where or 'the file'}: expected {'an object' if isinstance(form, dict) else 'a list'}"
        case dict():
            for key, inner in form.items():
                name, path = key.rstrip("?"), f"{where}.{key.rstrip('?')}".strip(".")
                if name in value:
                    problem = problem or mismatch(value[name], inner, path)
                elif not key.endswith("?"):
                    problem = problem or f"{path}: missing"
        case list():
            checks = (mismatch(item, form[0], f"{where}.{at}".strip(".")) for at, item in enumerate(value))
            problem = next((check for check in checks if check), None)
        case _ if not isinstance(value, form) or (isinstance(value, bool) and form is not bool):
            problem = f"{where}: expected {_spoken(form)}, found {json.dumps(value, default=str)[:60]}"
    return problem


def _spoken(form: type) -> str:
    names = {str: "text", int: "a number", float: "a number", bool: "true or false", dict: "an object"}
    return names.get(form, "null")
