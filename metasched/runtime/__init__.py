"""Kernels as their users hold them: calls from Python and from Numba, threads, packed weights, export."""
