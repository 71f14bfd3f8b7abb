"""What this machine and this process are like for compiling and timing kernels, and what to change.

Its files, in reading order:

- `finding`: What a check found: how it stands, in a sentence, with what to do
- `examined`: What checks look at: the target, and how Linux describes the machine
- `examination`: Every check, in the order in which a person reads them
- `checks/`: A file a check, which defines `check`: from an `Examined` to a `Finding`
"""
