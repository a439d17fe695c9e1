"""attnlab: experiments on attention mechanisms and systematic generalisation."""

__version__ = "0.1.0"
