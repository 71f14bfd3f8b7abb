"""One network for many sizes: kernels for the largest of them, in which nothing beyond a call's sizes counts.

Its files, in reading order:

- `size_range`: Sizes from a smallest to a largest one, in buckets; and types of values whose sizes these are
- `open_types`: The types of what a model returns whose sizes are ranges: which dimensions have these sizes
- `given_sizes`: The sizes that a call's inputs have, which decide what it runs on
- `steps`: Steps of sizes that a model has where it has not all of a range: multiples of a number, which it is read at
- `extents`: Sizes of dimensions at the largest sizes and at samples, and dimensions as products of them
- `comparison`: Two graphs of one model at different sizes: where they differ in numbers only
- `following`: How the places of a smaller graph's values lie in the larger one's
- `masks`: Programs in which nothing counts that lies beyond the sizes of a call
- `masking`: A graph for the largest sizes, which takes those of a call as an input
- `choices`: Schedules for a network of other sizes, such that its kernels read weights as those of another network do
- `forms`: What calls of a bucket take as functions of their sizes, so that no model is read for a size
- `bucket`: A network for a range of sizes, called with any of them
- `rooms`: The buckets of some sizes, by how long caches are before a call
"""
