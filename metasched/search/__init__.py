"""Strategies over a decision space, the task scheduler, and the tuning loop."""
