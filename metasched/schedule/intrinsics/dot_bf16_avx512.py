"""AVX512-BF16's vdpbf16ps: in each of 16 lanes, 2 products of bf16, added to a sum of float32.

Products of two bf16 are exact in float32, and each of the two additions rounds to nearest: that is the sum with its
terms in another order. Denormals, of the inputs and of the sums, are treated as zero.
"""

FEATURES = ("avx512bf16",)
VECTOR_BITS = 512
FLUSHES_DENORMALS = True
THROUGHPUT = 2.0
LATENCY = 8.0
LAYOUT = 'B holds pairs of rows, such as transform_layout(cache_read(block, "B"), "k, j -> k//2, j, k%2") makes them'

PROGRAM = """
program dot_bf16_avx512(A: bf16[2], B: bf16[16, 2]) -> C: f32[16]:
    C[j] = sum[k](f32(A[k]) * f32(B[j, k]))
"""
