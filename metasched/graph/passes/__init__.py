"""Rewritings of a graph, a file each: a function from a graph to a graph that computes the same outputs."""
