"""Interpolations of a plain configuration (`${backbone.dropout}`), resolved as by OmegaConf in a tenth of its time.

OmegaConf makes a node of every value first. Here it is asked only for interpolations that do not just name another key.
"""

import re
from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf

from attnlab.config.dotted_keys import MISSING, join, value_at

_KEY = re.compile(r"\$\{(\.*)(\w[\w.]*)\}")
_LONGEST_CHAIN = 9
"""interpolations that lead to one value; more may be a circle, which OmegaConf reports"""


class Interpolations:
    """Resolves values of a configuration of plain dicts and lists."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self._node: Any = None

    def resolved(self, value: Any, key: str = "", chain: int = 0) -> Any:
        """A value, or a section, with its interpolations resolved.

        Args:
            key: where it stands.
            chain: number of interpolations that have led to it.

        Raises:
            omegaconf.errors.OmegaConfBaseException: an interpolation that cannot be resolved.
        """
        if isinstance(value, dict):
            return {name: self.resolved(item, join(key, str(name)), chain) for name, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, join(key, str(at)), chain) for at, item in enumerate(value)]
        if not (isinstance(value, str) and "${" in value):
            return value
        if match := _KEY.fullmatch(value):
            # one dot: in the same section
            section = ".".join(key.split(".")[: -len(match[1])]) if match[1] else ""
            target = join(section, match[2])
            named = value_at(self.config, target)
            if named is not MISSING and chain < _LONGEST_CHAIN:
                return self.resolved(named, target, chain + 1)
        return self._by_omegaconf(value, key)

    def _by_omegaconf(self, text: str, key: str) -> Any:
        if text.count("${") == 1 and ":" in text:
            # a resolver's value, which depends on no other key
            return OmegaConf.create({key: text})[key]
        if self._node is None:
            self._node = OmegaConf.create(dict(self.config))
        value = OmegaConf.select(self._node, key)
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
