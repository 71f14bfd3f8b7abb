"""Compiled networks on disk: for the next process, and as folders that run with NumPy alone.

Its files, in reading order:

- `digests`: SHA-256 of large contents, by several threads
- `large_writes`: Large files that are written by a thread while their maker goes on
- `network_archive`: A compiled network as bytes: JSON that says what it is, and machine code; weights are apart
- `network_cache`: Compiled networks on disk: a second process runs one without reading the model's graph
- `network_key`: What a compiled network on disk was made from, as a key: the model's digest, what it is loaded with,
  versions
- `exported_parts`: What of a network an export writes: its compiled members with what they take, over weights that are
  written once
- `exported_sizes`: What an export of a network has whose sizes are ranges
- `export`: A compiled network as a folder that runs with NumPy alone: a Python file, machine code, and packed weights
"""
