"""The rule library: a file a rule, written with metasched's public API only. Installs as `metasched.rules`."""
