"""AVX-VNNI's vpdpbusd for two signed operands: A + 128 is unsigned, and 128 times the sums of B are taken off again.

The correction depends on B only, so that it is computed once for all rows of A in a register tile.
"""

FEATURES = ("avxvnni",)
VECTOR_BITS = 256
THROUGHPUT = 1.0
LATENCY = 6.0
REGISTERS = 2
LAYOUT = (
    'B holds groups of four rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)

PROGRAM = """
program dot_i8i8_avxvnni(A: i8[4], B: i8[8, 4]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
