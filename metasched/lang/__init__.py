"""The language: text and Python to programs and traces, and back to text.

Its files, in reading order:

- `diagnostics`: Gathering every mistake of a text before raising
- `elaboration/`: From the tree of a program and its parameters to IR: names, sizes, types, bounds and shapes
- `numpy_names`: Hints for names from NumPy, Python and PyTorch: how the language writes them
- `text/`: Text to trees and traces: the grammar, layout, and what syntax errors say
- `python_values`: The parts of programs built in Python: values with Python's operators, and tensors
- `assemble`: From tensors built in Python to the tree of a program
- `build`: Programs built in Python: the same tree as from text
- `calls`: The math functions in programs built in Python: `exp(x)`, and so on for each of `metasched.functions.library`
- `call_arguments`: What programs are called with in Python: arguments by their places or names, and scalars
- `instructions`: A trace as plain data, which its text is parsed to and printed from
- `decisions`: Decisions of random variables, converted between Python, text, JSON and traces
- `load`: Programs from text and from files
- `memory_order`: Programs whose arguments have their dimensions in another order in memory
- `module_tree`: A module as it is written: the tree that its text parses to, and the text that it prints as
- `shorthand_shapes`: Infers extents and element types of stages without a head from the arrays of a call
- `shorthand`: Programs without a head: stages alone, whose arguments get their shapes and element types from arrays
- `trace_json`: Traces as JSON, for other tools: the same data as the text, nothing more
"""

from metasched.lang.decisions import print_decision as print_decision
from metasched.lang.load import load_program as load_program
from metasched.lang.load import parse_definitions as parse_definitions
from metasched.lang.load import parse_program as parse_program
from metasched.lang.load import read_source as read_source
from metasched.lang.text.index_maps import parse_index_map as parse_index_map
from metasched.lang.text.index_maps import sizes_of as sizes_of
from metasched.lang.text.traces import parse_trace as parse_trace
from metasched.lang.text.traces import print_instruction as print_instruction
from metasched.lang.text.traces import print_trace as print_trace
from metasched.lang.text.traces import print_value as print_value
