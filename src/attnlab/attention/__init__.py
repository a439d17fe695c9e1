"""Attention mechanisms, one a file; `from attnlab.attention import LinearAttention` needs no other import.

Classes are loaded at their first use; `__init__.pyi` lists them for type checkers and for the loader.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
