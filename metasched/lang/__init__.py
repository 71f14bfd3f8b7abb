"""The language: text and Python to programs and traces, and back to text."""

from metasched.lang.decisions import print_decision as print_decision
from metasched.lang.index_maps import parse_index_map as parse_index_map
from metasched.lang.load import load_program as load_program
from metasched.lang.load import parse_definitions as parse_definitions
from metasched.lang.load import parse_program as parse_program
from metasched.lang.load import read_source as read_source
from metasched.lang.traces import parse_trace as parse_trace
from metasched.lang.traces import print_instruction as print_instruction
from metasched.lang.traces import print_trace as print_trace
from metasched.lang.traces import print_value as print_value
