"""Slow reference of gated delta rule: `reference/delta_rule.py`, by the module's decays."""

from reference.delta_rule import attention

__all__ = ["attention"]
