"""One of each of what packages add: a rule, a preset, an operator, a strategy, a task scheduler, an executor, a
database and a file of knowledge.
"""
