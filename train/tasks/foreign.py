"""Distinguishes models of `transformers`, in a folder or on the Hub, from runs."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import InputError
from ...files import read_json


def is_foreign(folder_or_name: str | Path) -> bool:
    """Whether `models.pretrained` must load this: a folder with its config.json, or a name such as OWNER/MODEL.

    What looks like a path (absolute, under `runs` or a folder that is there) is none of the Hub's names.
    """
    path = Path(folder_or_name)
    if os.path.isdir(path):
        try:
            config = read_json(path / "config.json")
        except InputError:
            return False
        return "format" not in config and "model_type" in config
    parts = path.parts
    if len(parts) != 2 or parts[0] in ("runs", "~", path.anchor):
        return False
    return not os.path.exists(path) and not os.path.exists(parts[0])
