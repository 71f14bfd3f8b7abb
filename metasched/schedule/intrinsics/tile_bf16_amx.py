"""AMX's tdpbf16ps: a tile of 16 x 16 sums of float32, each of 32 products of bf16.

Products of two bf16 are exact in float32, and additions round to nearest, pair after pair. Denormals, of the inputs and
of the sums, are treated as zero.
"""

FEATURES = ("amx-tile", "amx-bf16")
DENSE = {"A": 2, "B": 2}
LAYOUT = (
    "A row of A's tile is 32 neighbours; B's holds pairs of rows, such as "
    'transform_layout(cache_read(block, "B"), "k, j -> k//2, j, k%2") makes them'
)
FLUSHES_DENORMALS = True
TILES = True
THROUGHPUT = 16.0
LATENCY = 17.0

PROGRAM = """
program tile_bf16_amx(A: bf16[16, 16, 2], B: bf16[16, 16, 2]) -> C: f32[16, 16]:
    C[i, j] = sum[k, p](f32(A[i, k, p]) * f32(B[k, j, p]))
"""
