"""The command line: a file a command, each a `Command`; `main` lists them."""
