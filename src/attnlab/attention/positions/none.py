"""No positions: what mechanisms with an order of their own need."""

from attnlab.attention.positions.base import Positions


class NonePositions(Positions):
    """No positions."""
