"""Which candidates are worth measuring: features of a whole population, and the models that score them.

Its files, in reading order:

- `core`: The few constants of a CPU core that the hand-made terms use
- `index`: Index expressions as sums of coefficients times atoms, ready to be evaluated over a population
- `conditions`: Conditions on indices, in a form that can be evaluated over a population
- `operations`: What one instance of a statement computes, counted from its expression
- `split_fused_loops`: Parallel loops that are several loops fused, taken apart
- `joined_dims`: Neighbouring dimensions that are used as one, such as the rows and columns of an image whose pixels a
  loop counts
- `earlier_uses`: Reads of what an earlier statement has just used, in the same iteration of the loops around both
- `nest`: What the features need to know of a program, extracted once: statements, their loops and their accesses
- `footprint`: How much of each buffer a statement touches under each of its loops, over a population
- `same_lines`: Lines that several reads of a statement have in common, such as those of a stencil: they come into a
  cache once
- `cache_use`: What a statement leaves in each cache between its iterations, and what it moves into each, over a
  population
- `caches`: What the caches of a CPU hold for a kernel
- `threads`: What one thread does of a statement
- `sums`: Which sums lowering can keep in registers
- `shares`: For which share of a statement's instances a condition holds, and of its unrolled copies where that is known
- `feature`: Declaring features of a statement, with the functions that compute them
- `tensor_use`: What uses of a tensor intrinsic take, over a population: operands that are loaded, and registers for its
  sums
- `transposed`: Reads that are transposed in registers, over a population
- `statement_loops`: The loops around one statement over a population: their extents, vectors, unrolled copies and
  threads
- `lane_conditions`: Conditions that depend on nothing but the lane, over a population: the compiler knows which lanes
  run, so that reads under them need no masks, and may be shuffled as others are
- `statement`: One statement over a population: what its accesses load and touch, what it moves into caches, its
  register tile
- `reuse_between_statements`: The statements of a program over a population, each with what those before it have left in
  the caches
- `peak`: The arithmetic that a core can do at most, by what a statement computes: what efficiency is a share of
- `condition_cycles`: What conditions cost a statement, and which of its instances they leave, over a population
- `handed_on`: Vectors that are loaded from what was stored just before them, as parts of two stores: a core hands on
  what one store holds, and a load of more than that waits until the first cache has both.
- `prefetched`: How much longer lines take to come where prefetchers do not bring them in time, over a population
- `roofline`: A roofline by hand: the cycles of one statement over a population, by what bounds it
- `groups`: Features of one statement over a population: arithmetic, loops, vectors, registers, parallelism, cycles
- `memory`: Features of the buffers a statement touches, over a population
- `features`: Features of scheduled programs, as arrays over a population
- `baseline`: Scores that need no measurement
- `expectation`: What the hand-made roofline expects of a scheduled program, and which of its terms limits that
- `task_times`: Measured candidates of a task: what models learn from
- `forest`: A forest of small regression trees as arrays, evaluated with NumPy alone
- `lightgbm_package`: LightGBM, imported when a model is first trained
- `trained`: A trained model: how much longer candidates take than the hand-made roofline says, learned from many tasks
- `training`: Training a model on measurements of many tasks
- `ranking`: How well scores rank the candidates of one task, whose times are known
- `figures`: What judgements of tasks say as figures: means over tasks, with bootstrap intervals
- `leaf_membership`: Which leaves of a trained model candidates reach: what they have in common, and what moves by
  their times
- `model`: The learned cost model: what many tasks taught, adapted to the task at hand
- `held_out`: How well models rank kinds of tasks that they were not trained on: each kind is left out in turn
- `importance`: Which features a trained model goes by, in groups
- `model_registry`: Cost models by name, a file each in `models/`, and those that users have trained, by the path of
  their text
- `models/`: Cost models, a file each, which defines `model`: what makes one from a seed
"""
