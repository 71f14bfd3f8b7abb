"""Cost models, a file each, which defines `model`: what makes one from a seed.

- `roofline`: the hand-made estimate, of which only the scale is learned
- `trees`: LightGBM on top of the roofline
"""
