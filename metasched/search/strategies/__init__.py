"""Strategies, a file each, which defines `strategy`: what makes one from `StrategyInputs`.

- `random`: draws from the prior; the baseline
- `evolutionary`: rows that breed under a model's score, over all arms at once
- `evolutionary_no_crossover`: the same, with one parent for each child
- `evolutionary_with_steps`: half of each batch bred so, half steps from the three best that were measured
- `annealing`: 128 chains whose temperature falls, and a diverse batch of the best rows they met, as in AutoTVM
- `metropolis`: many short chains, whose last positions sample the posterior, as in MetaSchedule's paper
- `beam`: prefixes of decisions, completed and judged by the model, as in Halide's autoscheduler
- `mcts`: Monte-Carlo tree search over decisions, with the model as the value
- `droplet`: coordinate descent from the three best that were measured
- `bandit`: takes for each batch the one of these that has been worth most, as OpenTuner
"""
