"""Search spaces: rules, their composition, sketches, and populations of candidates.

Its files, in reading order:

- `rule_errors`: Mistakes in a rule: which line of it made them, and what the program was
- `rule`: Rules: modules that the space generator tries on every block of a program
- `combinators`: Rules made of rules
- `text/`: Modules in text: read, checked, and run as rules
- `rule_files`: Rules in files: Python, or text (`.ms`)
- `registry`: Finding rules and presets: those installed under the entry-point group `metasched.rules`, and those in a
  file
- `given`: Decisions that are given, by address: whether they agree, and two sets of them as one
- `source`: What makes a space: rules, a module, a trace with holes, each perhaps with decisions given
- `explanation`: Which rules applied to which blocks of a program, and why not, as text
- `sketch`: A sketch: a program with its structure fixed and its numbers left free
- `space`: A program's search space: its sketches, made lazily
- `traced`: A trace with holes as a space: what it decides is fixed, and what it leaves open is searched
- `conditions`: Anything that describes a space, as a source or for a program; and spaces in which decisions are given
"""
