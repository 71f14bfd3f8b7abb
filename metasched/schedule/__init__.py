"""Schedules: primitives, random variables, traces, and the handlers that run them."""
