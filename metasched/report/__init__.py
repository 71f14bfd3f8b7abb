"""What people look at: why a search came to what it did, and where the time of a kernel's call goes.

Its files, in reading order:

- `progress`: What the tuning loop reports while it runs
- `progress_text`: Times and progress as text for a person
- `progress_view`: Ways to watch a tuning run: a line that changes on a terminal or in a notebook, a line now and then
  elsewhere
- `limits`: What a machine can do at most, as it has measured of itself, and how long a stage takes at least by that
- `profile`: Where the time of a kernel's call goes: each nest's, and what share of the machine's limit it reaches
"""
