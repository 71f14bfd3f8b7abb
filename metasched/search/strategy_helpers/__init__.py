"""What single strategies take, or a few: steps, chains, a diverse batch, a tree, a model for several.

Its files, in reading order:

- `descent`: Steps from the best that were measured: the neighbours of a few candidates, from as near as there are any
- `chains`: Markov chains over the rows of some arms, which walk together under a model's score
- `walk_states`: What a strategy keeps between batches, such as the positions of its chains
- `diverse`: A diverse batch by submodular choice, as in AutoTVM (Chen et al. 2018, section 5.2)
- `decision_tree`: A tree of decisions with what is known of each: visits, and the scores of what was found below it
- `shared_model`: One model that several strategies train, each for itself: it is trained again for whoever asks after
  another did
"""
