"""AVX-VNNI's vpdpbusd lane by lane: 4 products of unsigned and signed bytes in each of 8 lanes, added up exactly.

The bytes of A lie in 4 rows, such as the pixels that a channel's window takes, and are put side by side in registers.
"""

FEATURES = ("avxvnni",)
VECTOR_BITS = 256
THROUGHPUT = 0.5
LATENCY = 5.0
REGISTERS = 1

PROGRAM = """
program lanes_u8i8_avxvnni(A: u8[4, 8], B: i8[8, 4]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k, j]) * i32(B[j, k]))
"""
