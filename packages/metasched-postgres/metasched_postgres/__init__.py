"""Tuning records in PostgreSQL, by URLs `postgresql://USER@HOST/DATABASE`: an outside package of metasched.

Its files, in reading order:

- `errors`: PostgreSQL's errors as sentences about the database
- `schema`: The tables, in a schema of their own, and their version
- `claims`: Claims as rows
- `database`: Records in a PostgreSQL database that many processes on many machines write to at once
- `opening`: Opening a database by its URL
"""
