"""Rules that run rows in parallel and columns in vector lanes, and a preset of both."""

from metasched_toy_rules.columns import toy_columns
from metasched_toy_rules.rows import toy_rows

toy = (toy_rows, toy_columns)
