"""The rule library: one file a rule, written with the public API of metasched only."""
