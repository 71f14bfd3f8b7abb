"""The order of dimensions of values in memory: what kernels prefer, and programs in that order.

Its files, in reading order:

- `orders`: Stages whose tensors have their dimensions in another order
- `preferences`: Which dimensions of its operands a reduction wants innermost
- `following`: How an order of one tensor of a stage carries over to the others
- `regions`: Values whose orders go together, and the order that a region would have
- `cost`: What a region's order costs against the one that it has
- `constant_names`: Constants that took the place of others get their names
- `rewriting`: A graph whose values have other orders
- `reshaping`: Stages over another shape of their data
- `joining`: Dimensions that are always used together as one
- `splitting`: Stages with several indices along what was one dimension
- `viewed_nodes`: A graph that is rewritten node by node, with values in other shapes
"""
