"""attnlab: experiments on attention mechanisms and systematic generalisation.

`load_run(folder)` loads a trained run, `runs(folder)` lists runs as a table, `attnlab.attention` has the mechanisms.
Names are loaded at their first use (`__init__.pyi` lists them): `import attnlab` alone imports no torch.
"""

import lazy_loader

__version__ = "0.4.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
