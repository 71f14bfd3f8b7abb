"""Which candidates are worth measuring: features of a whole population, and the models that score them."""
