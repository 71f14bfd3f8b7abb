"""Search spaces: rules, their composition, sketches, and populations of candidates."""
