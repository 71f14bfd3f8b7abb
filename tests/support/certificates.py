"""Certificates of an authority of one's own, made by the command `openssl`."""

from __future__ import annotations

import subprocess
from pathlib import Path


def authority(folder: Path, name: str) -> Path:
    """A new authority: its certificate, NAME.pem, whose key is NAME.key."""
    _openssl(folder, "req", "-x509", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}")
    return folder / f"{name}.pem"


def certificate(folder: Path, name: str, by: Path) -> str:
    """A certificate of an authority, as the files of an address: `ca=...&cert=...&key=...`."""
    _openssl(folder, "req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.request", "-subj", f"/CN={name}")
    signed = ["-CA", str(by), "-CAkey", str(by.with_suffix(".key")), "-CAcreateserial", "-out", f"{name}.pem"]
    _openssl(folder, "x509", "-req", "-in", f"{name}.request", "-days", "2", *signed)
    return f"ca={by}&cert={folder / name}.pem&key={folder / name}.key"


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def _openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)
