"""One of each of what packages add: a rule, a preset, an operator, a strategy, an executor and a database."""
