"""AVX-VNNI's vpdpbusd: in each of 8 lanes, 4 products of an unsigned and a signed byte, added up exactly."""

FEATURES = ("avxvnni",)
VECTOR_BITS = 256
THROUGHPUT = 0.5
LATENCY = 5.0
LAYOUT = (
    'B holds groups of four rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)

PROGRAM = """
program dot_u8i8_avxvnni(A: u8[4], B: i8[8, 4]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
