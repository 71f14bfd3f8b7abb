"""Precision as a choice: products of narrower floats or of bytes, and what that changes of a network's results.

Its files, in reading order:

- `choice`: What precision a network is asked for
- `products`: Sums of products in programs: products of matrices, convolutions
- `narrowing`: Programs whose buffers are of a narrower float, and which compute in f32 as before
- `quantised`: Quantised numbers in programs: what bytes they are of
- `products_of_bytes`: Products of quantised numbers as products of bytes
- `rounding`: A quantised network without rounding: what it would compute in f32
- `error`: How far a network's results are from those in float32
"""
