"""Number of training steps of a run."""

from attnlab.config.schema import Train


def steps_of(train: Train) -> int:
    """`train.max_steps`, once it is computed where the configuration counts epochs (`run.fit.with_steps`).

    Raises:
        ValueError: it is null.
    """
    if train.max_steps is None:
        raise ValueError("train.max_steps=null: the steps of train.max_epochs are not computed yet")
    return train.max_steps
