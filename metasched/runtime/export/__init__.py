"""Kernels as files of their own, which run without this package."""

from metasched.runtime.export.artefact import export as export
