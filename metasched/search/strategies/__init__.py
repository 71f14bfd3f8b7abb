"""Strategies, a file each, which defines `strategy`: what makes one from `StrategyInputs`.

- `evolutionary`: rows that breed under a model's score, over all arms at once
- `random`: draws from the prior; the baseline
"""
