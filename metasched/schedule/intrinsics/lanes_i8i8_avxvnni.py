"""AVX-VNNI's vpdpbusd lane by lane for two signed operands: 4 products of bytes in each of 8 lanes, added up exactly.

The bytes of A lie in 4 rows, such as the pixels that a channel's window takes, and are put side by side in registers.
The instruction multiplies unsigned by signed bytes, so it is given A + 128, and 128 . B is taken off.
"""

FEATURES = ("avxvnni",)
VECTOR_BITS = 256
THROUGHPUT = 1.5
LATENCY = 6.0
REGISTERS = 2

PROGRAM = """
program lanes_i8i8_avxvnni(A: i8[4, 8], B: i8[8, 4]) -> C: i32[8]:
    C[j] = sum[k](i32(A[k, j]) * i32(B[j, k]))
"""
