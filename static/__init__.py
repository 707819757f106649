"""Files shipped with the package: demo model and data, report page, page of one row."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def read_static(name: str) -> str:
    """A text file of this folder, such as `report/page.js`."""
    return (files(__name__) / name).read_text(encoding="utf-8")


def policy_hash(source: str) -> str:
    """What a Content-Security-Policy names an inline script or style by, without its quotes."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()
