"""What each node type computes, as programs of the language: a file for each family.

A function with `@node_type("Name", ...)` takes a `NodeSite` and returns the node's outputs. What it cannot say raises
Unsupported, with the reason that a person will read. Attributes have ONNX's defaults already.
"""
