"""The functions of NumPy that can be traced: a file for each family.

`@traces("name")` stands above a function of the trace and of what NumPy's takes, in its order. It gives values of the
graph, or is written in NumPy's own names, by other functions that can be traced.
"""
