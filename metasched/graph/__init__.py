"""Whole networks: from a model's file to programs of the language, and what runs them in order.

Its files, in reading order:

- `errors`: What is wrong with a model, and what of it cannot be expressed
- `whole_numbers`: Numbers of elements as callers give them: Python's integers and NumPy's
- `loop_node`: What the inputs and outputs of a loop are, and how many steps it is taken to run
- `counted_axis`: A dimension of which only a call knows how many elements there are: it has room for all that there may
  be
- `value_type`: Element types and shapes of a network's values
- `placement`: Where values lie that have no memory of their own, and how much of what grows is there
- `ir`: The graph: values, nodes that are programs, views or loops, constants
- `live_graph`: A graph without what no output depends on
- `builder`: A graph while it is made; what depends on constants alone is computed at once
- `text`: Pieces of a program's text: subscripts, broadcasting, literals
- `site`: A node of a model as the functions of `node_types/` see it
- `registry`: The node types that are known, found by their files
- `reading/`: A model's file, read as data: its message, its weights, and what it says of sizes
- `node_helpers/`: What functions of several node types take: parts, windows, running and sorted rows, known places,
  packed numbers
- `loops/`: Loops of a graph: made from models, rewritten, and made stretches of its nodes
- `counted/`: Values of which only a call knows how many elements there are
- `trees/`: Ensembles of decision trees as programs
- `node_types/`: What each node type computes, as programs: a file a family
- `fusion/`: Programs joined to one, and what is seen in programs: what limits them, copies, updates
- `layouts/`: The order of dimensions of values in memory, and dimensions that are one
- `precision/`: Products of narrower floats or of bytes, and what that changes of results
- `passes/`: Rewritings of a graph, a file each, and the order in which they run
- `importing`: From a model to a graph
- `inputs`: Inputs of a network: arrays of its types, checked, and random ones for trying it
- `signature`: What callers see of a network without its graph: names and types of what it takes and returns
- `tasks`: The tasks of a graph: its distinct programs, whatever their names, and how often it runs each
- `code/`: Machine code of a graph's tasks: how they are scheduled, built by processes, and kept on disk
- `running/`: What a call runs: where values lie in memory, packed weights, steps, and how long they take
- `saved/`: Compiled networks on disk: for the next process, and as folders that run with NumPy alone
- `tuning/`: Tuning networks: sessions over their tasks, what is recorded of them, and what is the faster in their calls
- `members`: What a network does with all the networks that its calls run on: one of just one size, or one for each
  bucket
- `network`: A network as its users hold it
- `growing/`: A model with a size that grows from call to call, as networks of fixed room
- `growing_network`: A model with a size that grows: a call runs on kernels for a bucket of lengths
- `buckets/`: One network for many sizes: kernels for the largest of them, in which nothing beyond a call's sizes counts
- `network_of_sizes`: A model whose sizes are ranges: a network for each bucket of sizes, in which only the sizes of a
  call count
- `opened_model`: A model's file with what is settled of it: the graphs of its sizes
- `loading`: Networks from models' files: of one size, or of ranges of sizes
"""
