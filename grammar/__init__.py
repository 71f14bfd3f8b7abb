"""The language: one grammar for programs, modules and traces. Installs as `metasched.grammar`."""
