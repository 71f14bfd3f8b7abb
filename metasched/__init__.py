"""metasched: a small language for search spaces of tensor programs, and the search that finds the fast one.

What the package has is imported when it is first used (PEP 562), and with it what it needs: NumPy by most of it, Numba
by what compiles, LightGBM by what trains. `import metasched` alone takes no time.

Its files, in reading order:

- `support/`: What the package needs of Python and of the process that it runs in; nothing here knows tensor programs
- `errors`: The exceptions a user can meet
- `settings`: What the environment sets: every variable that metasched reads, with what it does
- `cache_folder`: The folder that is this user's for what can be made again: tuned kernels, and what the machine has
  measured
- `dtypes`: Element types of buffers and scalars: one table of what there is to know of each
- `target`: What a kernel is compiled for and scored against: instruction sets, caches, threads
- `ir/`: Tensor programs: nodes, index arithmetic, queries, printing, and what well formed means
- `permissions`: What results may differ by besides the order of a sum, asked for once, as `allow=`
- `functions/`: The math functions of the language, a file each
- `lang/`: The language: text and Python to programs and traces, and back to text
- `schedule/`: Schedules: primitives, random variables, traces, and the handlers that run them
- `operators/`: The operator library: programs in files, the shapes others are judged by, and expert traces
- `reference/`: The reference: any program, scheduled or not, run in the plainest way
- `compiler/`: From a scheduled program to machine code: lowering to loops over flat arrays, then a folder a kind of
  target
- `runtime/`: Kernels as their users hold them: calls from Python and from Numba, threads, packed weights, export
- `space/`: Search spaces: rules, their composition, sketches, and populations of candidates
- `cost/`: Which candidates are worth measuring: features of a whole population, and the models that score them
- `calibration/`: The machine measures itself: small loops, and the constants of the cost model that follow
- `measure/`: Measuring candidates in worker processes: build, check against the reference, time
- `database/`: Tuning records: text only, in SQLite by default, by URL
- `knowledge/`: What was found for kinds of anchors: the best structures and numbers of many sizes
- `report/`: What people look at: why a search came to what it did, and where the time of a kernel's call goes
- `search/`: Strategies over a decision space, the task scheduler, and the tuning loop
- `graph/`: Whole networks: from a model's file to programs of the language, and what runs them in order
- `doors/`: Other ways in to networks: Python functions of NumPy's names, and PyTorch's modules, as graphs
- `doctor/`: What this machine and this process are like for compiling and timing kernels, and what to change
- `api`: The public face: the names that scripts rely on
- `kernel_function`: The shortest way in: a kernel from one line of index notation, called with arrays
- `cli/`: The command line: a file a command, each a `Command`; `main` lists them
"""

import sys
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

from metasched.support.imports import imports as _imports
from metasched.support.requirements import require as _require

if TYPE_CHECKING:  # what type checkers and editors read; a test compares it with the table below
    from metasched import operators as operators
    from metasched.api import DEFAULT_DATABASE as DEFAULT_DATABASE
    from metasched.api import Guess as Guess
    from metasched.api import calibrate as calibrate
    from metasched.api import compile as compile
    from metasched.api import condition as condition
    from metasched.api import guess as guess
    from metasched.api import parse_trace as parse_trace
    from metasched.api import records as records
    from metasched.api import space as space
    from metasched.api import tune as tune
    from metasched.calibration.calibration import CalibrationError as CalibrationError
    from metasched.cost.learning.trained import ModelError as ModelError
    from metasched.database.record import DatabaseError as DatabaseError
    from metasched.doors.jit.errors import TraceError as TraceError
    from metasched.doors.jit.function import JitFunction as JitFunction
    from metasched.doors.jit.function import jit as jit
    from metasched.doors.pytorch.backend import TorchBackend as TorchBackend
    from metasched.doors.pytorch.backend import explain_torch as explain_torch
    from metasched.errors import BuildError as BuildError
    from metasched.errors import CacheWarning as CacheWarning
    from metasched.errors import KernelError as KernelError
    from metasched.errors import LanguageError as LanguageError
    from metasched.errors import MetaschedError as MetaschedError
    from metasched.errors import NondeterministicModule as NondeterministicModule
    from metasched.errors import NoRecord as NoRecord
    from metasched.errors import ResourceError as ResourceError
    from metasched.errors import ScheduleError as ScheduleError
    from metasched.graph.buckets.size_range import SizeRange as SizeRange
    from metasched.graph.errors import NetworkError as NetworkError
    from metasched.graph.errors import RefusedModel as RefusedModel
    from metasched.graph.growing.sizes import GrowingSize as GrowingSize
    from metasched.graph.loading import load_onnx as load_onnx
    from metasched.graph.network import Network as Network
    from metasched.graph.network_of_sizes import NetworkOfSizes as NetworkOfSizes
    from metasched.graph.tuning.networks import tune_networks as tune_networks
    from metasched.ir.nodes import LoopKind as LoopKind
    from metasched.ir.program import Program as Program
    from metasched.kernel_function import KernelFunction as KernelFunction
    from metasched.kernel_function import kernel as kernel
    from metasched.knowledge.entries import KnowledgeError as KnowledgeError
    from metasched.lang import load_program as load_program
    from metasched.lang import parse_program as parse_program
    from metasched.lang.build import *  # noqa: F403
    from metasched.lang.calls import *  # noqa: F403
    from metasched.measure.records import CheckError as CheckError
    from metasched.reference.execution import reference as reference
    from metasched.report.page import ReportError as ReportError
    from metasched.report.progress import Progress as Progress
    from metasched.report.progress_view import progress_view as progress_view
    from metasched.report.table import RecordsError as RecordsError
    from metasched.runtime.kernel import Kernel as Kernel
    from metasched.runtime.kernel import Origin as Origin
    from metasched.schedule.analysis import BlockInfo as BlockInfo
    from metasched.schedule.analysis import IterInfo as IterInfo
    from metasched.schedule.analysis import ReadInfo as ReadInfo
    from metasched.schedule.handlers import Policy as Policy
    from metasched.schedule.handlers import Repair as Repair
    from metasched.schedule.module import module as module
    from metasched.schedule.module import rerun as rerun
    from metasched.schedule.tensor_fit import TensorFit as TensorFit
    from metasched.schedule.tensor_fit import TensorOperand as TensorOperand
    from metasched.schedule.trace import Schedule as Schedule
    from metasched.schedule.trace import Trace as Trace
    from metasched.schedule.trace_check import InvalidTrace as InvalidTrace
    from metasched.schedule.trace_check import TraceProblem as TraceProblem
    from metasched.schedule.trace_diff import TraceDiff as TraceDiff
    from metasched.schedule.values import BlockRV as BlockRV
    from metasched.schedule.values import Int as Int
    from metasched.schedule.values import LoopRV as LoopRV
    from metasched.schedule.values import ceildiv as ceildiv
    from metasched.schedule.values import maximum as maximum
    from metasched.schedule.values import minimum as minimum
    from metasched.search.report import TuningReport as TuningReport
    from metasched.search.session import TuningSession as TuningSession
    from metasched.search.space_protocol import Candidate as Candidate
    from metasched.search.space_protocol import Observation as Observation
    from metasched.search.strategy_registry import StrategyInputs as StrategyInputs
    from metasched.search.task import Task as Task
    from metasched.space.combinators import attempt as attempt
    from metasched.space.combinators import choice as choice
    from metasched.space.combinators import each_consumer as each_consumer
    from metasched.space.combinators import sequence as sequence
    from metasched.space.combinators import when as when
    from metasched.space.rule import LEFT_ALONE as LEFT_ALONE
    from metasched.space.rule import Rule as Rule
    from metasched.space.rule import RuleError as RuleError
    from metasched.space.rule import Skip as Skip
    from metasched.space.rule import rule as rule
    from metasched.space.rule import skip as skip
    from metasched.space.sketch import Sketch as Sketch
    from metasched.space.space import Space as Space
    from metasched.space.text.rules import load_module as load_module
    from metasched.space.text.rules import parse_module as parse_module
    from metasched.target import Target as Target
    from metasched.target import TargetError as TargetError

    operator = operators.load

__version__ = "0.2.0"

_require()

# `metasched.grammar` and `metasched.rules` are inside this folder once installed, and beside it in a checkout, where
# `import metasched` finds this file first whether it is installed or not.
_HERE = Path(__file__).parent
if not (_HERE / "grammar").is_dir() and (_HERE.parent / "grammar" / "metasched.lark").is_file():
    __path__.append(str(_HERE.parent))  # noqa: F405 -- Python defines it

# The names of this package, by the module that defines them.
_NAMES = {
    "metasched.api": (
        "DEFAULT_DATABASE",
        "Guess",
        "calibrate",
        "compile",
        "condition",
        "guess",
        "parse_trace",
        "records",
        "space",
        "tune",
    ),
    "metasched.runtime.kernel": (
        "Kernel",
        "Origin",
    ),
    "metasched.reference.execution": ("reference",),
    "metasched.target": ("Target", "TargetError"),
    "metasched.errors": (
        "BuildError",
        "CacheWarning",
        "KernelError",
        "LanguageError",
        "MetaschedError",
        "NondeterministicModule",
        "NoRecord",
        "ResourceError",
        "ScheduleError",
    ),
    "metasched.calibration.calibration": ("CalibrationError",),
    "metasched.cost.learning.trained": ("ModelError",),
    "metasched.database.record": ("DatabaseError",),
    "metasched.knowledge.entries": ("KnowledgeError",),
    "metasched.measure.records": ("CheckError",),
    "metasched.report.page": ("ReportError",),
    "metasched.report.table": ("RecordsError",),
    "metasched.kernel_function": (
        "KernelFunction",
        "kernel",
    ),
    "metasched.doors.jit.errors": ("TraceError",),
    "metasched.doors.jit.function": ("JitFunction", "jit"),
    "metasched.doors.pytorch.backend": ("TorchBackend", "explain_torch"),
    "metasched.graph.errors": ("NetworkError", "RefusedModel"),
    "metasched.graph.growing.sizes": ("GrowingSize",),
    "metasched.graph.loading": ("load_onnx",),
    "metasched.graph.network": ("Network",),
    "metasched.graph.tuning.networks": ("tune_networks",),
    "metasched.graph.network_of_sizes": ("NetworkOfSizes",),
    "metasched.graph.buckets.size_range": ("SizeRange",),
    "metasched.ir.nodes": ("LoopKind",),
    "metasched.ir.program": ("Program",),
    "metasched.lang": (
        "load_program",
        "parse_program",
    ),
    "metasched.lang.build": (
        "param",
        "let",
        "scalar",
        "placeholder",
        "compute",
        "program",
        "sum",
        "prod",
        "max",
        "min",
        "compute_arg",
        "argmax",
        "argmin",
        "where",
        "clamp",
        "mirror",
        "cast",
        "call",
        "Tensor",
        "Value",
    ),
    # The math functions, a file each of their names.
    "metasched.lang.calls": tuple(info.name for info in iter_modules([str(_HERE / "functions" / "library")])),
    "metasched.schedule.analysis": ("BlockInfo", "IterInfo", "ReadInfo"),
    "metasched.schedule.tensor_fit": ("TensorFit", "TensorOperand"),
    "metasched.schedule.handlers": (
        "Policy",
        "Repair",
    ),
    "metasched.schedule.module": (
        "module",
        "rerun",
    ),
    "metasched.schedule.trace": ("Schedule", "Trace"),
    "metasched.schedule.trace_check": (
        "InvalidTrace",
        "TraceProblem",
    ),
    "metasched.schedule.trace_diff": ("TraceDiff",),
    "metasched.schedule.values": (
        "BlockRV",
        "Int",
        "LoopRV",
        "ceildiv",
        "maximum",
        "minimum",
    ),
    "metasched.report.progress": ("Progress",),
    "metasched.report.progress_view": ("progress_view",),
    "metasched.search.report": ("TuningReport",),
    "metasched.search.session": ("TuningSession",),
    "metasched.search.space_protocol": ("Candidate", "Observation"),
    "metasched.search.strategy_registry": ("StrategyInputs",),
    "metasched.search.task": ("Task",),
    "metasched.space.combinators": (
        "attempt",
        "choice",
        "each_consumer",
        "sequence",
        "when",
    ),
    "metasched.space.rule": (
        "LEFT_ALONE",
        "Rule",
        "RuleError",
        "Skip",
        "rule",
        "skip",
    ),
    "metasched.space.sketch": ("Sketch",),
    "metasched.space.space": ("Space",),
    "metasched.space.text.rules": (
        "load_module",
        "parse_module",
    ),
}
_PLACES = {name: (module, name) for module, names in _NAMES.items() for name in names}
_PLACES["operator"] = ("metasched.operators", "load")

__all__ = ["__version__", "operators", *_PLACES]  # noqa: PLE0604 -- they are strings


class _Package(ModuleType):
    """This package as a module: a subpackage does not take the place of what the package has by the same name.

    Python makes `metasched.space` an attribute when the folder is imported; `metasched.space` is a function.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if not TYPE_CHECKING:  # a checker would take any name for one of this package's

    def __getattr__(name: str) -> object:
        """What the package has by a name, which is imported now and kept."""
        if name == "operators":
            return _imports.module("metasched.operators")
        if name not in _PLACES:
            raise AttributeError(f"module 'metasched' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        module, attribute = _PLACES[name]
        value = globals()[name] = getattr(_imports.module(module), attribute)
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
