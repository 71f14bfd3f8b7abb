"""AVX-VNNI's vpdpbusd where the vectors are of unsigned bytes, such as weights of a few bits.

What is repeated is signed.
"""

FEATURES = ("avxvnni",)
VECTOR_BITS = 256
THROUGHPUT = 0.5
LATENCY = 5.0
LAYOUT = (
    'B holds groups of four rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)

PROGRAM = """
program dot_i8u8_avxvnni(A: i8[4], B: u8[8, 4]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
