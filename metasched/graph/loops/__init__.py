"""Loops of a graph: made from models, rewritten, and made stretches of its nodes.

Its files, in reading order:

- `building`: A loop as a node of a graph: its body is imported once, for a step whose number nobody knows yet
- `elements_above`: The first elements of long rows, looked for among those that are above a number, which a loop finds
- `pairwise_shares`: Probabilities of classes from those of one class against another, as LIBSVM finds them
- `unrolled`: Loops, step by step, where how many steps there are is known at load
- `appended_states`: Loops whose steps put rows behind a state, and do nothing else with it
- `bodies`: Passes in the bodies of loops, and what bodies take over from the graph around them
- `flat_graph`: A graph whose loops are stretches of its nodes: what is planned, compiled and tuned
"""
