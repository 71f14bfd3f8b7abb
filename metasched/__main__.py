"""`python -m metasched` is the command line."""

from metasched.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
