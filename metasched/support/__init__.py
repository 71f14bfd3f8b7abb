"""What the package needs of Python and of the process that it runs in; nothing here knows tensor programs.

Its files, in reading order:

- `data_classes`: Data classes that are made in a ninth of the time
- `forks`: What a fork of this process waits for: work of other threads that the child could neither use nor finish
- `imports`: Imports at first use
- `messages`: Words of messages: a hint, numbers of things, lists of names, and the names that were probably meant
- `conditions`: Conditions that raise an error where they do not hold: what each file raises, it says once
- `declared_files`: Things that are declared in a file each of one of our packages: found by the files' names, and
  checked when loaded
- `documentation`: Docstrings as documentation: of primitives, intrinsics and rules, whose declarations require one
- `source_text`: The text of a Python function, as far as it says what the function does: no comments, no layout, no
  docstrings
- `fingerprint`: A hash of what a value does, the same in every process: of functions by their source, of data by its
  content
- `single_flight`: Work that several callers may want at once, done once: the first caller has it done, and the others
  wait for it
- `started_threads`: The threads of a pool, all started before there is work for them
- `first_use`: Modules that are imported at their first use, once
- `compiler_internals`: What metasched uses of llvmlite, and of a Numba that somebody has imported, that is not their
  public face
- `numba_internals`: What metasched uses of Numba that is not its public face, but for what `compiler_internals` asks
  without an import
- `compile_lock`: The lock of what compiles with LLVM, and the locks that a fork waits for
- `python_file`: Reading a Python file that a person wrote for metasched: rules, or a strategy
- `integers`: Which values are integers and numbers: True and False, with which Python counts, answer another question
- `calls`: What a person's own function can be called with, found out without calling it
- `installed`: The entry points of installed packages
- `registry`: A registry of named things: ours, a file each in a package, and those of other packages, by entry points
- `requirements`: The releases of Numba and llvmlite that metasched makes its machine code with
- `code_version`: The versions that decide the machine code a trace becomes
- `collection`: Python's search for cycles of objects, put off while very many objects are made that have none
- `cached`: What is worked out once an object and kept with it, without a lock: properties, and results by a key
- `by_identity`: Results of functions, remembered by the very objects that they were called with
- `interrupts`: Ctrl-C put off while a change that must be whole is made
- `stopwatch`: Time measurement: seconds of a call, and seconds by name
- `amx_permission`: Whether the system permits a process to use AMX, which the CPU may have and the system refuse
- `other_work`: What else uses this machine's cores meanwhile: other processes, and the host of a virtual machine
"""
