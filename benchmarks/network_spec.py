"""What the sides of `benchmarks.networks` have in common: their names, and how memory is read. It needs nothing."""

from __future__ import annotations

import os
from pathlib import Path

ONNX_RUNTIME = "ONNX Runtime"
EAGER, COMPILED = "PyTorch eager", "torch.compile"
EAGER_BF16, COMPILED_BF16 = "PyTorch bf16", "torch.compile bf16"
F32_PEERS = (ONNX_RUNTIME, EAGER, COMPILED)
BF16_PEERS = (EAGER_BF16, COMPILED_BF16)

GUESS, TUNED, BF16 = "nothing tuned", "tuned", "bf16"


def resident_bytes() -> int:
    """Memory of this process that is in the machine's memory now; Linux only."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
