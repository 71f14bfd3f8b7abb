"""What people look at: why a search came to what it did, and where the time of a kernel's call goes.

Its files, in reading order:

- `progress`: What the tuning loop reports while it runs
- `progress_text`: Times and progress as text for a person
- `progress_view`: Ways to watch a tuning run: a line that changes on a terminal or in a notebook, a line now and then
  elsewhere
- `limits`: What a machine can do at most, as it has measured of itself, and how long a stage takes at least by that
- `candidates`: Measured candidates, in short: what a record says of one, with its decisions by address
- `choices`: The best time by each value of a decision: what a rule did to a program, as its author wants to see it
- `belief`: What the model believed of candidates before they were measured, and what was measured
- `analysis`: Why a search came to what it did: what was believed, what was measured, by what choice, and where the time
  went
- `source`: Where the records of a search are: in a database that can be opened again, or kept here where there is none
- `recorded`: Analyses of what a database holds: which task is meant, and its records of one version of the code
  generator
- `table`: Records as a table: columns of values, for pandas and polars
- `profile`: Where the time of a kernel's call goes: each nest's, and what share of the machine's limit it reaches
- `winner`: The best kernel of a search, run here once more to see where the time of its call goes
- `pictures`: The pictures of a report, as data that Plotly draws: `{"data": ..., "layout": ...}` each
- `page_style`: The style and the script of a report's page: light and dark, and readable on a phone's width
- `page`: A report as one HTML file, which needs nothing else: no other file, no network
- `figures`: The pictures of a report as Plotly's figures, for a notebook and for code that changes or saves them
"""
