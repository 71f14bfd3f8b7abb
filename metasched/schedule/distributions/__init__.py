"""Distributions: what a sampler draws from, for one candidate or for a population."""
