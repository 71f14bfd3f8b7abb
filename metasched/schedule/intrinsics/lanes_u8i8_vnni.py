"""AVX512-VNNI's vpdpbusd lane by lane: 4 products of unsigned and signed bytes in each of 16 lanes, added up exactly.

The bytes of A lie in 4 rows, such as the pixels that a channel's window takes, and are put side by side in registers.
"""

FEATURES = ("avx512vnni",)
VECTOR_BITS = 512
THROUGHPUT = 0.5
LATENCY = 5.0
REGISTERS = 1

PROGRAM = """
program lanes_u8i8_vnni(A: u8[4, 16], B: i8[16, 4]) -> C: i32[16]:
    C[j] = sum[k](i32(A[k, j]) * i32(B[j, k]))
"""
