"""How the knowledge that is shipped is found: sizes of real networks, and what tunes them.

Its files, in reading order:

- `from_text`: Programs that are written as text, at sizes in the order of their parameters
- `first_layers`: What networks begin with: a convolution of an image whose channels come first
- `numerical`: What numerical programs compute beside layers: distances, filters, stencils, column sums, products of
  vectors
- `depthwise`: Depthwise layers as graphs have them: padding, a sum for each channel, a bias, and what follows it
- `convolutions`: Convolutions of windows of 3 as graphs have them: padding, a sum, a bias, and what follows it
- `attention`: Products of attention whose heads lie side by side in rows, as layers before it make them
- `quantised`: Layers of networks in bytes, as graphs have them
- `halves`: Layers of networks in bf16, as graphs have them
- `norms`: Layer normalisations as graphs have them: a sum of each row, one of its squared differences, and what is
  scaled
- `sizes`: The sizes: layers of real networks by operator, none of them of the sweeps that guesses are judged by
- `collect`: Tuning them, as many as there is time for: `python -m benchmarks.knowledge.collect`
- `from_networks`: What the tuning of whole networks has found, as knowledge
- `from_yardstick`: What was timed of programs with tensor instructions, as knowledge
- `expected`: Knowledge for a CPU that is not at hand, by long searches without measuring
"""
