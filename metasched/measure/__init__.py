"""Measuring candidates in worker processes: build, check against the reference, time."""
