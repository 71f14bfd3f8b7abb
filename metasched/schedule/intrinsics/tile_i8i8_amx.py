"""AMX's tdpbssd: a tile of 16 x 16 sums of 32 bits, each of 64 products of two signed bytes, added up exactly."""

FEATURES = ("amx-tile", "amx-int8")
DENSE = {"A": 2, "B": 2}
LAYOUT = (
    "A row of A's tile is 64 neighbours; B's holds groups of 4 rows, such as "
    'transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)
TILES = True
THROUGHPUT = 16.0
LATENCY = 17.0

PROGRAM = """
program tile_i8i8_amx(A: i8[16, 16, 4], B: i8[16, 16, 4]) -> C: i32[16, 16]:
    C[i, j] = sum[k, p](i32(A[i, k, p]) * i32(B[k, j, p]))
"""
