"""The language: text and Python to programs and traces, and back to text.

Its files, in reading order:

- `diagnostics`: Gathering every mistake of a text before raising
- `sizes`: Parameters, `let`s, and expressions of numbers alone
- `bounds`: Bounds of an index under the conditions around it
- `extents`: Where iteration variables get their extents from
- `numpy_names`: Hints for names from NumPy, Python and PyTorch: how the language writes them
- `borders`: Functions that bring an index into a range: what is read beyond a border. Each stands for minima and maxima
- `conversions`: Values of one element type as values of another
- `index_hints`: What to write instead of a read whose index may leave its buffer
- `values`: Expressions with types: source expressions of one stage to IR expressions
- `stages`: One stage: its axes, its shape, and its block
- `elaborate`: From a definition and its parameters to IR: names, sizes, shapes, types and bounds
- `expressions`: Parse tree to source expressions, for programs, modules and traces alike
- `layout`: From indentation to tokens: the step between the lexer and the parser
- `parse_tables`: The parser's tables as text: read, they take a tenth of the time that it takes to make them of the
  grammar
- `mistakes`: Readable syntax errors, with hints from the examples of mistakes beside the grammar
- `syntax`: Text to parse tree: the grammar, loaded once, and syntax errors
- `programs`: Text to the tree of a program
- `python_values`: The parts of programs built in Python: values with Python's operators, and tensors
- `assemble`: From tensors built in Python to the tree of a program
- `build`: Programs built in Python: the same tree as from text
- `calls`: The math functions in programs built in Python: `exp(x)`, and so on for each of `metasched.functions.library`
- `call_arguments`: What programs are called with in Python: arguments by their places or names, and scalars
- `instructions`: A trace as plain data, which its text is parsed to and printed from
- `decisions`: Decisions of random variables, converted between Python, text, JSON and traces
- `index_maps`: Index maps: text such as `i, j -> j//16, i, j%16` to data
- `load`: Programs from text and from files
- `memory_order`: Programs whose arguments have their dimensions in another order in memory
- `module_tree`: A module as it is written: the tree that its text parses to, and the text that it prints as
- `modules`: Text to the tree of a module
- `shorthand_shapes`: Infers extents and element types of stages without a head from the arrays of a call
- `shorthand`: Programs without a head: stages alone, whose arguments get their shapes and element types from arrays
- `trace_json`: Traces as JSON, for other tools: the same data as the text, nothing more
- `trace_lines`: Traces as they are printed, read line by line: what a line says is kept, as the candidates of a search
  share most
- `traces`: Traces: text to data and back
"""

from metasched.lang.decisions import print_decision as print_decision
from metasched.lang.index_maps import parse_index_map as parse_index_map
from metasched.lang.index_maps import sizes_of as sizes_of
from metasched.lang.load import load_program as load_program
from metasched.lang.load import parse_definitions as parse_definitions
from metasched.lang.load import parse_program as parse_program
from metasched.lang.load import read_source as read_source
from metasched.lang.traces import parse_trace as parse_trace
from metasched.lang.traces import print_instruction as print_instruction
from metasched.lang.traces import print_trace as print_trace
from metasched.lang.traces import print_value as print_value
