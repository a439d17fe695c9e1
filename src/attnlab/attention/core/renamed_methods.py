"""Former names of methods that mechanisms override: an override under one of them would never be called."""

RENAMED = {"joined": "project_output", "placed": "with_positions", "handed_on": "cast_output"}


def refuse_former_names(mechanism: type) -> None:
    """Check the methods of a mechanism that somebody wrote for an earlier version.

    Raises:
        TypeError: it overrides a method under its former name.
    """
    for former in RENAMED.keys() & vars(mechanism).keys():
        raise TypeError(f"{mechanism.__name__}.{former}: this method is called {RENAMED[former]} now")
