"""Tensor programs: nodes, index arithmetic, queries, printing, and what well formed means."""
