"""What the package needs of Python and of the process that it runs in; nothing here knows tensor programs."""
