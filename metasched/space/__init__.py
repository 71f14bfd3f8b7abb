"""Search spaces: rules, their composition, sketches, and populations of candidates.

Its files, in reading order:

- `rule_errors`: Mistakes in a rule: which line of it made them, and what the program was
- `rule`: Rules: modules that the space generator tries on every block of a program
- `combinators`: Rules made of rules
- `text/`: Modules in text: read, checked, and run as rules
- `rule_files`: Rules in files: Python, or text (`.ms`)
- `registry`: Finding rules and presets: those installed under the entry-point group `metasched.rules`, and those in a
  file
- `given`: Given decisions, by address: whether a trace agrees with them, and merging two sets
- `source`: Sources of spaces: rules, a module, or a trace with holes, each optionally with given decisions
- `explanation`: Which rules applied to which blocks of a program, and why not, as text
- `sketch`: A sketch: a program with its structure fixed and its numbers left free
- `source_runs`: Runs of a space's source under different structural decisions, of which the steps that they share are
  made once
- `space`: A program's search space: its sketches, made lazily
- `structures`: Structures of a space, made on demand: drawn, mutated and crossed over by the addresses of their
  decisions
- `traced`: A trace with holes as a space: its decisions are fixed, and its holes are searched
- `conditions`: What a caller may pass as a space, made into a source or a `Space`; and spaces with some decisions given
"""
