"""AVX512-VNNI's vpdpbusd: in each of 16 lanes, 4 products of an unsigned and a signed byte, added up exactly."""

FEATURES = ("avx512vnni",)
VECTOR_BITS = 512
THROUGHPUT = 0.5
LATENCY = 5.0
LAYOUT = (
    'B holds groups of four rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//4, j, k%4") makes them'
)

PROGRAM = """
program dot_u8i8_vnni(A: u8[4], B: i8[16, 4]) -> C: i32[16]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
