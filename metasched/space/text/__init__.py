"""Modules in text: read, checked, and run as rules."""
