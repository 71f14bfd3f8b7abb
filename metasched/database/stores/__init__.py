"""Where records can be kept: a file for each scheme of URLs, of its name, which defines `opener`.

Its files, in reading order:

- `sqlite`: `sqlite:///PATH`: one SQLite file
"""
