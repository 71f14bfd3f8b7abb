"""What each operator computes: a file for each family.

`@aten("name.overload")` stands above a function of the site and of what the operator takes, in its order and by
its names.
"""
