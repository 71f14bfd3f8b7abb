"""The operator library: programs in files, the shapes others are judged by, and expert traces.

program = operators.load("conv2d_nhwc", H=14, W=14, CI=256, CO=256)
program = operators.TWELVE["C2D"].program()
expert = operators.expert("matmul_nn.blocked")
"""

from metasched.operators.experts import Expert as Expert
from metasched.operators.experts import expert as expert
from metasched.operators.experts import expert_names as expert_names
from metasched.operators.experts import expert_traces as expert_traces
from metasched.operators.library import load as load
from metasched.operators.library import names as names
from metasched.operators.library import source as source
from metasched.operators.suites import TWELVE as TWELVE
from metasched.operators.suites import Case as Case
