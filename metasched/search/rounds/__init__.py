"""What strategies that are guided by a model have in common: rounds, in which they look, breed, and choose a batch.

Its files, in reading order:

- `population`: Array operations on populations: rows of integers
- `history`: The observations of a search, as the arrays that a model and a population need
- `seen_features`: What candidates look like to a model: those that look the same have the same code, but for rare
  exceptions
- `selection`: The rows scored in one round, and the selection of a batch from them
- `round`: One round of a search: what a strategy looks at before it proposes a batch, scored by the model
- `rows_ahead`: What a round begins with that was looked at before the times of the last batch were known
- `structure_breeding`: Which structures a round looks at: those measured fastest, some drawn once for all, and
  offspring of the best
- `batch_choice`: The choice of a batch from a round: high scores that are unlike one another, new structures, random
  picks
- `guided`: What strategies that are guided by a model have in common: they learn, look, choose, and fill a batch
"""
