"""Text to trees and traces: the grammar, layout, and what syntax errors say.

Its files, in reading order:

- `expressions`: Parse tree to source expressions, for programs, modules and traces alike
- `layout`: From indentation to tokens: the step between the lexer and the parser
- `parse_tables`: The parser's tables as text: read, they take a tenth of the time that it takes to make them of the
  grammar
- `mistakes`: Readable syntax errors, with hints from the examples of mistakes beside the grammar
- `syntax`: Text to parse tree: the grammar, loaded once, and syntax errors
- `programs`: Text to the tree of a program
- `index_maps`: Index maps: text such as `i, j -> j//16, i, j%16` to data
- `modules`: Text to the tree of a module
- `trace_lines`: Traces as they are printed, read line by line: what a line says is kept, as the candidates of a search
  share most
- `traces`: Traces: text to data and back
"""
