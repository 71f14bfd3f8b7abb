"""Vector math: the language's functions as branch-free code over lanes, inlined into kernels."""

from metasched.compiler.cpu.math.registry import MathFunction as MathFunction
from metasched.compiler.cpu.math.registry import define as define
from metasched.compiler.cpu.math.registry import registry as registry
from metasched.compiler.cpu.math.registry import stated_errors as stated_errors
