"""Makes attnlab's launchers known to Hydra, which imports every file of `hydra_plugins` in each process."""

from attnlab.config.launcher_options import register

register()
