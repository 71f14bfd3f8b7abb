"""metasched: a small language for search spaces of tensor programs, and the search that finds the fast one."""

from metasched import operators as operators
from metasched.api import DEFAULT_DATABASE as DEFAULT_DATABASE
from metasched.api import Guess as Guess
from metasched.api import compile as compile
from metasched.api import condition as condition
from metasched.api import guess as guess
from metasched.api import parse_trace as parse_trace
from metasched.api import space as space
from metasched.api import tune as tune
from metasched.backend.kernel import Kernel as Kernel
from metasched.backend.kernel import Origin as Origin
from metasched.backend.reference import reference as reference
from metasched.backend.target import Target as Target
from metasched.errors import BuildError as BuildError
from metasched.errors import CacheWarning as CacheWarning
from metasched.errors import KernelError as KernelError
from metasched.errors import LanguageError as LanguageError
from metasched.errors import MetaschedError as MetaschedError
from metasched.errors import NondeterministicModule as NondeterministicModule
from metasched.errors import NoRecord as NoRecord
from metasched.errors import ScheduleError as ScheduleError
from metasched.frontdoor import KernelFunction as KernelFunction
from metasched.frontdoor import kernel as kernel
from metasched.ir.nodes import LoopKind as LoopKind
from metasched.ir.program import Program as Program
from metasched.lang import load_program as load_program
from metasched.lang import parse_program as parse_program
from metasched.lang.build import *  # noqa: F403
from metasched.schedule.analysis import BlockInfo as BlockInfo
from metasched.schedule.handlers import Policy as Policy
from metasched.schedule.handlers import Repair as Repair
from metasched.schedule.module import module as module
from metasched.schedule.module import rerun as rerun
from metasched.schedule.schedule import Schedule as Schedule
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
from metasched.search.progress import Progress as Progress
from metasched.search.progress_view import progress_view as progress_view
from metasched.space.combinators import attempt as attempt
from metasched.space.combinators import choice as choice
from metasched.space.combinators import each_consumer as each_consumer
from metasched.space.combinators import sequence as sequence
from metasched.space.combinators import when as when
from metasched.space.rule import Rule as Rule
from metasched.space.rule import RuleError as RuleError
from metasched.space.rule import Skip as Skip
from metasched.space.rule import rule as rule
from metasched.space.rule import skip as skip
from metasched.space.sketch import Sketch as Sketch
from metasched.space.space import Space as Space
from metasched.space.text_rules import load_module as load_module
from metasched.space.text_rules import parse_module as parse_module

operator = operators.load

__version__ = "0.2.0"
