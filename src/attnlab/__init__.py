"""attnlab: experiments on attention mechanisms and systematic generalisation."""

__version__ = "0.2.0"
