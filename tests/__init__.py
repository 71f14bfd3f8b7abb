"""The tests, a package so that they share helpers by name: `tests.support`."""
