"""Exemptions from laws name an existing law, an existing class and a reason."""

import importlib

from support.law_exemptions import EXEMPTIONS, LAWS


def test_exemptions_name_laws_and_classes() -> None:
    for (law, path), reason in EXEMPTIONS.items():
        print(f"exempt from the law of {law}: {path} ({reason})")
        module, _, name = path.rpartition(".")
        assert law in LAWS
        assert hasattr(importlib.import_module(module), name)
        assert len(reason) > 20, f"{path}: say why"
