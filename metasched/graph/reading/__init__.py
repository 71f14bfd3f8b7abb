"""A model's file, read as data: its message, its weights, and what it says of sizes.

Its files, in reading order:

- `weights_in_file`: A model's message without its large weights, which stay where they are in the file
- `mapped_files`: Large weights where they are in their file: pages of it that are read when they are needed, and let go
  afterwards
- `tensors`: Arrays of a model's file: their sizes are checked before memory is taken
- `channel_slopes`: Slopes of `PRelu` before opset 7, which ONNX's converter leaves as they are
- `old_resizing`: Where `Resize` and `Upsample` looked before opset 11, when nodes did not say it
- `model_file`: A model's file, read as data
- `size_expressions`: Sizes that a model says by others: `past_sequence_length + 1`
- `size_names`: The names of sizes that the inputs of a model leave open
- `graph_names`: The values that a graph of a model uses
- `functions`: Bodies of node types that ONNX defines by other node types, and of a model's own functions
"""
