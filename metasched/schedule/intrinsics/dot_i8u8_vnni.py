"""vpdpbusd where the vectors are of unsigned bytes, such as weights of a few bits, and what is repeated is signed."""

FEATURES = ("avx512vnni",)
VECTOR_BITS = 512
THROUGHPUT = 0.5
LATENCY = 5.0
LAYOUT = (
    'B holds groups of four rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)

PROGRAM = """
program dot_i8u8_vnni(A: i8[4], B: u8[16, 4]) -> C: i32[16]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
