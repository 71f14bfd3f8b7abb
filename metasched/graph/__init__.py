"""Whole networks: from a model's file to programs of the language, and what runs them in order.

Its files, in reading order:

- `errors`: What is wrong with a model, and what of it cannot be expressed
- `loop_node`: What the inputs and outputs of a loop are, and how many steps it is taken to run
- `counted_axis`: A dimension of which only a call knows how many elements there are: it has room for all that there may
  be
- `value_type`: Element types and shapes of a network's values
- `placement`: Where values lie that have no memory of their own, and how much of what grows is there
- `ir`: The graph: values, nodes that are programs, views or loops, constants
- `builder`: A graph while it is made; what depends on constants alone is computed at once
- `text`: Pieces of a program's text: subscripts, broadcasting, literals
- `site`: A node of a model as the functions of `node_types/` see it
- `absent_elements`: Elements that are not there, of values with a size that only a call knows
- `size_arithmetic`: Sizes that data decide, in values that models compute shapes of
- `windows`: Windows that slide over spatial dimensions
- `merged_blocks`: Rows in order: blocks of them are ranked, and merged in pairs
- `joined_rows`: Values joined along a dimension of which only a call knows how many elements there are
- `repeated_elements`: Values that repeat another along dimensions of which that has one element
- `known_elements`: Elements of values that depend on constants alone, though the graph computes them in each call
- `known_places`: Places of a tensor that are known, one for each of some updates: a box of it, or a table
- `places_that_hold`: The places where a condition holds, in order, and how many there are
- `appended_states`: Loops whose steps put rows behind a state, and do nothing else with it
- `loop_building`: A loop as a node of a graph: its body is imported once, for a step whose number nobody knows yet
- `unrolled_loops`: Loops, step by step, where how many steps there are is known at load
- `registry`: The node types that are known, found by their files
- `counted_views`: Views of values with a size that only a call knows: which dimension of the view has how many
- `counted_rows`: Nodes that read values with a size that only a call knows: they compute all that there is room for
- `node_types/`: What each node type computes, as programs: a file a family
- `fusion/`: Programs joined to one
- `layouts/`: The order of dimensions of values in memory, and dimensions that are one
- `precision/`: Products of narrower floats or of bytes, and what that changes of results
- `copies`: Programs that only copy: concatenations, slices, splits, permutations, whatever they were called
- `updates`: Programs that replace a stretch of a tensor: what a decoder does to its cache of keys
- `loop_bodies`: Passes in the bodies of loops, and what bodies take over from the graph around them
- `passes/`: Rewritings of a graph, a file each, and the order in which they run
- `row_programs`: Programs that compute each row of their results from one row of what they read, and the same for a
  block of rows
- `filled_rows`: Nodes that go by rows of which only a call knows how many there are, in groups
- `row_blocks`: Rows of which only a call knows how many there are, in blocks: a loop runs as many as the rows fill
- `growing/`: A model with a size that grows from call to call, as networks of fixed room
- `weights_in_file`: A model's message without its large weights, which stay where they are in the file
- `mapped_files`: Large weights where they are in their file: pages of it that are read when they are needed, and let go
  afterwards
- `tensors`: Arrays of a model's file: their sizes are checked before memory is taken
- `packed_numbers`: Weights of a few bits each, packed in bytes, with a scale and a zero point for each block of them
- `channel_slopes`: Slopes of `PRelu` before opset 7, which ONNX's converter leaves as they are
- `model_file`: A model's file, read as data
- `size_expressions`: Sizes that a model says by others: `past_sequence_length + 1`
- `functions`: Bodies of node types that ONNX defines by other node types, and of a model's own functions
- `importing`: From a model to a graph
- `inputs`: Inputs of a network: arrays of its types, checked, and random ones for trying it
- `choices`: What decides how a task is scheduled: a trace that is known for it, or that it runs as it is written
- `step_code`: Machine code of a task as data: its arguments and its bytes
- `task_code`: Machine code of a task: its program with a schedule, divided into what is computed of constants once,
  and a step
- `default_choice`: The schedule of a program that nothing is known for
- `code_archive`: Machine code of a task as bytes: JSON that says what it is, and the code itself
- `owned_files`: Files of a cache that are trusted: this user's, in a folder of this user's, which nobody else can
  write
- `digests`: SHA-256 of large contents, by several threads
- `large_writes`: Large files that are written by a thread while their maker goes on
- `code_cache`: Machine code of tasks on disk: a file each, in a folder of the user's cache that only its owner can
  write
- `builder_worker`: A builder process of networks: `python -m metasched.graph.builder_worker SETTINGS`
- `building`: Builder processes: machine code of many tasks side by side, the longest programs first
- `flat_graph`: A graph whose loops are stretches of its nodes: what is planned, compiled and tuned
- `kernels`: Machine code for the tasks of a graph: from the cache, or made by their choices or the guess
- `plan`: Where the values of a network lie in memory: one arena for what lives during a call, by lifetimes
- `memory`: Memory of networks: pages of the system's, zero until they are written, in large pages where it has them
- `output_memory`: Memory of results: what a caller has let go is written again
- `execution_plan`: What a call of a network runs, as data: kernels, where arguments lie, what becomes of outputs and
  states
- `steps`: Machine code of steps in this process, and the table by which compiled code calls them one after another
- `plain_constants`: Constants as kernels read them: aligned, the last dimension contiguous
- `weights`: Weights of a network as its kernels read them, held once in one piece of memory
- `state`: What a network holds between calls: states, such as a decoder's cache of keys and values
- `executable`: A network that runs: one call of compiled code for all kernels, over one arena
- `loop_planning`: Where values of loops are, and what is done around their steps
- `planning`: From a graph and machine code of its kernels to what runs: where each value lies, packed weights, and the
  steps
- `signature`: What callers see of a network without its graph: names and types of what it takes and returns
- `network_archive`: A compiled network as bytes: JSON that says what it is, and machine code; weights are apart
- `network_cache`: Compiled networks on disk: a second process runs one without reading the model's graph
- `network_key`: What a compiled network on disk was made from, as a key: the model's digest, what it is loaded with,
  versions
- `exported_parts`: What of a network an export writes: its compiled members with what they take, over weights that are
  written once
- `exported_sizes`: What an export of a network has whose sizes are ranges
- `export`: A compiled network as a folder that runs with NumPy alone: a Python file, machine code, and packed
  weights
- `profile`: Where a network's time goes: each kernel's in place, its share of the machine's limit, where its
  schedule is from
- `packed_constants`: Constants of a graph that was compiled: kernels have copies, so the arrays are made again where
  somebody asks
- `tasks`: The tasks of a graph: its distinct programs, whatever their names, and how often it runs each
- `recorded`: What is recorded for the tasks of a network: their best times, and traces as choices
- `settling`: Tuned kernels in the network's own call, in turns with those that ran before: what is slower there is not
  used
- `strip_turns`: Groups of reductions in a network's own call: each in strips by one kernel, in turns with its kernels
  apart
- `tuning_view`: Ways to watch networks being tuned: a table that changes on a terminal or in a notebook, a line now and
  then elsewhere
- `tuning`: Tuning networks: one session over the tasks of one or several, whose order a task scheduler chooses
- `tuned_member`: A network of one size, as tuning sees it
- `network_tuning`: Tuning networks together: one session over the kernels of all, each of which is timed in its own
  call at the end
- `memory_figures`: What a network holds in memory, for a person: weights once, states, code, and what lives during a
  call
- `members`: What a network does with all the networks that its calls run on: one of just one size, or one for each
  bucket
- `network`: A network as its users hold it
- `buckets/`: One network for many sizes: kernels for the largest of them, in which nothing beyond a call's sizes counts
- `growing_network`: A model with a size that grows: a call runs on kernels for a bucket of lengths
- `size_range`: Sizes from a smallest to a largest one, in buckets; and types of values whose sizes these are
- `ranged`: A model whose sizes are ranges: a network for each bucket of sizes, in which only the sizes of a call count
- `opened_model`: A model's file with what is settled of it: the graphs of its sizes
- `loading`: Networks from models' files: of one size, or of ranges of sizes
"""
