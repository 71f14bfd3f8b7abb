"""AVX512-VNNI's vpdpbusd lane by lane for two signed operands: 4 products of bytes in each of 16 lanes, added exactly.

The bytes of A lie in 4 rows, such as the pixels that a channel's window takes, and are put side by side in registers.
The instruction multiplies unsigned by signed bytes, so it is given A + 128, and 128 . B is taken off.
"""

FEATURES = ("avx512vnni",)
VECTOR_BITS = 512
THROUGHPUT = 1.5
LATENCY = 6.0
REGISTERS = 2

PROGRAM = """
program lanes_i8i8_vnni(A: i8[4, 16], B: i8[16, 4]) -> C: i32[16]:
    C[j] = sum[k](i32(A[k, j]) * i32(B[j, k]))
"""
