"""The operator library: programs in files, the shapes others are judged by, and expert traces.

    program = operators.load("conv2d_nhwc", H=14, W=14, CI=256, CO=256)
    program = operators.TWELVE["C2D"].program()
    expert = operators.expert("matmul_nn.blocked")

Its files, in reading order:

- `batches`: Programs that compute the same for each element of a batch: which dimensions are the batch's, and what an
  element is
- `batched_trace`: A trace for one element of a batch, carried over to the whole: loops over the batch stay outside of
  all others
- `transposed_copies`: Copies of transposed operands in vectors: runs of neighbours are read and transposed in registers
- `groups`: Grouped operators: `G` groups of channels, of which there are `CI` in the input and `CO` in the output
- `limits`: What the parameters of pooling and of transposed convolutions may be, beyond what their files' sizes say
- `files`: Where the file of each operator is: those of the library lie beside this one, those of other packages where
  they say
- `library`: The program files: one an operator, parametric in its shape
- `experts`: Expert traces: schedules that people wrote for operators of the library, to learn from and to start from
- `structure`: Whether two programs have one structure: the same stages, on tensors that are indexed by the same loops
- `digests`: The operators that have expert traces, by the digests of their structures: the file `digests.json` beside
  this one
- `matching`: Which expert traces were written for what a program computes, whatever its shape and its names
- `named`: Programs and traces by what commands call them: a file, or `op:NAME` of the library
- `suites`: Operators at the shapes of published benchmarks
"""

from metasched.operators.experts import Expert as Expert
from metasched.operators.experts import expert as expert
from metasched.operators.experts import expert_names as expert_names
from metasched.operators.experts import expert_traces as expert_traces
from metasched.operators.files import names as names
from metasched.operators.library import load as load
from metasched.operators.library import source as source
from metasched.operators.suites import TWELVE as TWELVE
from metasched.operators.suites import Case as Case
