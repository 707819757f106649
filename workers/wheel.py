"""promptmill as a wheel, packed from what runs here, to be shipped to a cluster.

Two habits of Ray shape it. It installs a wheel of `py_modules` with `pip install --target`, which
fetches all that the wheel requires anew, Ray itself included, whatever the cluster has: so this
wheel requires nothing. And it takes a wheel's file name for its content: so the name carries a
hash, as a build tag, which leaves the version alone.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Final

PACKAGE: Final = "promptmill"
LAYERS: Final = ("workers", "pipeline", "schemas", "static")
LONG_AGO: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every member: the same code gives the same bytes, which Ray keeps once."""


def pack_wheel(folder: Path) -> Path:
    """Write the wheel to `folder`, from an installation or a source tree; where it is."""
    release = version(PACKAGE)
    info = f"{PACKAGE}-{release}.dist-info"
    members = dict(_modules())
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {release}\n".encode()
    )
    members[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: promptmill\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    lines = [f"{name},sha256={_digest(data)},{len(data)}" for name, data in members.items()]
    record = "".join(f"{line}\n" for line in [*lines, f"{info}/RECORD,,"]).encode()
    members[f"{info}/RECORD"] = record
    build = hashlib.sha256(record).hexdigest()[:12]
    path = folder / f"{PACKAGE}-{release}-0{build}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in members.items():
            member = zipfile.ZipInfo(name, LONG_AGO)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            wheel.writestr(member, data)
    return path


def _modules() -> Iterator[tuple[str, bytes]]:
    """Every file of the package by its name in the wheel, in a fixed order."""
    for layer in LAYERS:
        root = Path(import_module(f"{PACKAGE}.{layer}").__path__[0])
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{PACKAGE}/{layer}/{path.relative_to(root).as_posix()}", path.read_bytes()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
