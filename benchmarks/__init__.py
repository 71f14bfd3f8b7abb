"""Side-by-side runs against peers, and the figures the project promises: `python -m benchmarks` lists them.

Its files, in reading order:

- `arrays`: The inputs of every side, aligned to cache lines, so that chance alignment makes no difference between sides
- `blocks`: How a side is timed: samples of about a millisecond, over a block
- `registry`: The benchmarks there are: a file each, and a line here
- `naive`: The loops one writes first, in Numba: `parallel`, `fastmath`, the outermost loop a `prange`, the sum
  innermost
- `workloads`: The programs that are compared, and what their peers are: NumPy as one would write it, and plain Numba
  loops
- `tuning`: Tuning from scratch, in a database that nobody keeps
- `compile_time`: How long a candidate takes to compile: seconds of one core from the scheduled program to code that can
  be called
- `side`: One side of a comparison, in a process of its own: `python -m benchmarks.side SPEC`, started by
  `benchmarks.sides`
- `sides`: Comparing fairly: each side in its own process, in alternating blocks, on the same inputs; medians
- `dense_relu_quality`: How good the kernels are: 64 trials of dense + ReLU 512^3, five times with different seeds,
  against its peers
- `kernel_side`: Our side of a comparison of kernels, in a process of its own: compiles operators by given traces, and
  times them
- `kernel_cases`: The kernels that are compared: operators at shapes, the expert trace of each, and what it is compared
  with
- `peak`: What this machine can do at most: multiply-adds in registers, and bytes through memory
- `torch_side`: PyTorch's side of `benchmarks.kernels`: eager, channels last, in a virtual environment that has PyTorch
- `tvm_side`: TVM's side of `benchmarks.kernels`: the fastest record of a MetaSchedule database, compiled for this CPU
- `kernels`: Replayed expert traces against PyTorch, TVM and what the machine can do, kernel by kernel
- `tvm_figures`: What TVM's tuning of the twelve operators came to, from a file: its best times, and the seconds that
  tuning took
- `twelve`: The twelve operators tuned by the search alone, against TVM's stored best, PyTorch and our own expert traces
- `network_shapes`: The twelve operators at shapes of layers of real networks, for which nobody wrote a trace
- `guess`: How good the guess is where nobody tuned: the twelve operators at layers of real networks, beside what else
  there is
- `short_list`: How far from the best known what few or no measurements give is: the twelve operators at layers of real
  networks
- `composition_plot`: The plot of the composition experiment: best time against trials, a panel for each element type,
  as SVG
- `composition`: What each module adds to the space: a dense layer of BERT-large, 1024 x 4096 x 1024, bias and GELU, in
  three types
- `tensor_cores`: What tensor instructions gain where the CPU has them: products of bf16 and of bytes, tuned, against
  f32 and PyTorch
- `chain_side`: Our side of `benchmarks.mobilenet_blocks`, in a process of its own: programs that feed one another, by
  given traces
- `mobilenet_blocks`: MobileNet-v2's blocks as one task, against their three convolutions tuned apart
- `halide_pipelines`: The pipelines of `benchmarks.pipelines` in Halide, each with a schedule by hand
- `halide_grids`: The bilateral grid and the local Laplacian in Halide, each with a schedule by hand
- `halide_side`: Halide's side of `benchmarks.pipelines`: a pipeline by each autoscheduler and by hand, just-in-time
  compiled
- `pipeline_side`: Our side of `benchmarks.pipelines`, in a process of its own: programs by given traces, called from
  Python
- `pipelines`: Pipelines of images: our guess, and what a search finds, against Halide's autoschedulers and schedules by
  hand
- `onnxruntime_side`: ONNX Runtime on one thread, for `benchmarks.beside_onnxruntime`
- `beside_onnxruntime`: A small model beside ONNX Runtime, on one thread, untuned: CPU time of the thread, in turns
- `few_bits`: Products with weights of a few bits against ONNX Runtime, on one thread, untuned
- `trees`: Ensembles of random trees against ONNX Runtime, on one thread, untuned
- `onnx_nodes`: ONNX's own node tests: how many pass, are refused and why, and are wrong
- `network_models`: Networks that are compared, with random weights: made by the interpreter that has PyTorch, and
  exported to ONNX
- `network_spec`: What the sides of `benchmarks.networks` have in common: their names, and how memory is read. It needs
  nothing
- `network_peer_side`: A peer's side of `benchmarks.networks`: ONNX Runtime or PyTorch, in a virtual environment that
  has them
- `network_side`: Our side of `benchmarks.networks`, in a process of its own: loads a model, times its start, and then
  its calls
- `network_tuning`: Tuning of a network in a process of its own, and how long it took to reach ONNX Runtime's speed
- `networks`: Whole networks against the runtimes that people use: a process of its own for each side, in alternating
  blocks
- `task_schedulers`: Task schedulers: how many trials each takes until the kernels of a network are as fast as by the
  other
- `memory`: Whether memory is bounded: growth of the parent, and the peak of a worker, over 1,000 candidates of one
  program
- `openmp`: Numba's OpenMP threads instead of this package's pool, to compare the two
- `neighbours`: Small parallel regions beside busy processes: on several threads against one, and against OpenMP's
- `region_start`: What it costs to start a parallel region, and a barrier inside one, against Numba's OpenMP layer
- `regions`: Six small nests that depend on one another, in one kernel: in one parallel region, in six, and on one
  thread
- `run_main`: What `make run` shows: three real programs, tuned on this machine, next to NumPy and naive Numba, in one
  table
- `structures`: How long a structure takes to make, and its features to analyse: CPU time, over many bred from one
  another
- `scoring`: How fast a search scores candidates: candidates a second on one core, over whole generations
- `search_noise`: What searches of the twelve operators measured: how much the time of the same code varies, how many
  records are of different code, and what the search gained over the guess
- `wrong_constants`: What a search loses by wrong constants: each of them 2 to 4 times too large or too small, by chance
- `resume`: How long a search takes to resume from many records: from opening the database to its next proposals
- `session_start`: How long a task of a session takes from its first step to its first measurement: the first task, and
  further ones
- `first_compile`: How long the first kernel of a process takes: `ms.compile` of programs that nobody tuned, each in a
  fresh process
- `tune_time`: How long a search takes: 64 trials of dense + ReLU 512^3, everything included, and where the time went
- `simulated_machine`: A machine of a cluster that takes a fixed time for every candidate, and makes times up
- `cluster`: How the tuning of a network's tasks scales with machines: a real dask cluster, whose machines take a fixed
  time
- `tiles`: How right the hand-made estimate is about register tiles: cycles of small nests, on one core, beside what it
  says
- `yardstick/`: The yardstick of cost models: times of random candidates of many tasks, and what judges by them
- `knowledge/`: How the knowledge that is shipped is found: sizes of real networks, and what tunes them
- `model_quality`: How well cost models rank candidates: on operators of families that they never saw, and with 64
  records of the task
- `tensor_quality`: How well cost models rank candidates with tensor instructions: on operators of families that they
  never saw, and with 32 records of the task
- `contest/`: The contest of strategies: a frozen table of measured codes, and searches that are played on it
- `strategies`: Strategies in contest: every registered one searches a frozen table of measured codes, twenty times each
  task
- `ablations`: Ablations: what each part of a search is worth, on the frozen table and, for limited spaces, by tuning
- `against`: Searches of this checkout against those of another commit's: the best times after as many codes, by the
  same seeds
- `pretraining`: What a model is worth that was trained on another CPU: the first 16 codes of a search, against no
  pre-training
"""
