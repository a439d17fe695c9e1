"""Classes that a word names: kinds of task and positional encodings, one class in a file of that name."""


def kind_path(name: str) -> str:
    """Dotted path of a kind of task; `classification` is `attnlab.tasks.kinds.classification.ClassificationKind`."""
    return _path(name, "attnlab.tasks.kinds", "Kind")


def _path(name: str, package: str, suffix: str) -> str:
    """A dotted name is a path already."""
    return name if "." in name else f"{package}.{name}.{name.title().replace('_', '')}{suffix}"
