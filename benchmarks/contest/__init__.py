"""The contest of strategies: a frozen table of measured codes, and searches that are played on it.

Its files, in reading order:

- `stored`: The files of the frozen table: for each of the twelve operators a file of two lines, in the yardstick's form
- `collect`: Measuring the codes of the frozen table
- `described`: What a table's structures are to a search: their variables, decisions, measured rows and features
- `frozen`: The frozen table as a space that strategies search: it has the measured codes, and nothing else
- `elsewhere`: The yardstick as another CPU would have seen it: what a model that was trained there learned from
- `models`: Models that searches are played with: nothing, the roofline, from nothing, of other families, and the
  installed; and those of other families that another CPU has taught
- `order`: How well models rank the codes of a table before anything is measured: all of them, and those that searches
  come to first
- `playing`: A search that is played on a table: a strategy proposes, and the table answers
- `tournament`: Many searches on many tables: contestants by name, each with every task and seed, in processes of their
  own
- `figures`: What searches of many tasks and seeds come to: means over tasks with bootstrap intervals, and how often
  each wins
- `plot`: The plot of a contest: best time over the best known against codes, a line for each contestant, as SVG
- `live`: The contest on the machine itself: a few ways to search tune the twelve operators, with the same seeds
- `checkout_side`: A checkout's side of `benchmarks.against`, run by its path in a process that imports the checkout's
  own packages
- `checkouts`: Checkouts of the project, each of which searches with its own packages, in processes of their own
"""
