"""AVX512-BW's vpmaddwd: in each of 16 lanes, 2 products of signed 16-bit integers, added up (wrapping, as i32 does)."""

FEATURES = ("avx512bw",)
VECTOR_BITS = 512
THROUGHPUT = 1.0
LATENCY = 1.0
REGISTERS = 1
LAYOUT = 'B holds pairs of rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//2, j, k%2") makes them'

PROGRAM = """
program dot_i16_avx512(A: i16[2], B: i16[16, 2]) -> C: i32[16]:
    C[j] = sum[k](i32(A[k]) * i32(B[j, k]))
"""
