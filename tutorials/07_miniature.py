"""A metasched in miniature.

This file builds the whole of metasched again, in about three hundred lines: a little tensor language, schedules, search
spaces as probabilistic programs, traces, parametric sketches, a learned cost model, and an evolutionary search that
measures real machine code. Nothing is imported but NumPy and Numba. Everything runs, here or as `python
07_miniature.py`.

Read it from top to bottom. Each part names the idea it stands for, and where the grown-up version lives.
"""

from __future__ import annotations

import math
import re
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np

# %% [markdown]
# ## 1. What is computed
#
# A program says what, and nothing about how. Ours are products of tensors summed into another, which covers matrix
# products of all kinds: `C[i,j] += A[i,k] * B[k,j]`. An axis that the output lacks is summed over.
# (The real language is in `grammar/`, the real IR in `metasched/ir`.)


# %%
@dataclass(frozen=True)
class Program:
    text: str
    axes: dict[str, int]  # {"i": 256, ...}: the extent of each axis
    buffers: dict[str, str]  # {"C": "ij", "A": "ik", "B": "kj"}: the output first

    def shape(self, buffer: str) -> tuple[int, ...]:
        return tuple(self.axes[axis] for axis in self.buffers[buffer])


def parse(text: str, **axes: int) -> Program:
    return Program(text, axes, {name: idx.replace(",", "") for name, idx in re.findall(r"(\w+)\[([\w,]+)\]", text)})


def reference(program: Program, *inputs: np.ndarray) -> np.ndarray:
    """The oracle: slow or fast does not matter, as long as nobody doubts it."""
    out, *operands = program.buffers.values()
    result: np.ndarray = np.einsum(f"{','.join(operands)}->{out}", *(x.astype(np.float64) for x in inputs))
    return result


matmul = parse("C[i,j] += A[i,k] * B[k,j]", i=256, j=250, k=256)

# %% [markdown]
# ## 2. How it is computed
#
# A schedule is a list of loops, outermost first. Splitting an axis gives two loops that share it: the value of the axis
# is `sum(loop * stride)` over its loops. Every transformation is a function from such a list to another, and can only
# change the order of work: *the program's meaning is out of a schedule's reach*.
#
# One trick carries the whole file: a `Number` is an int, or **an array of ints, one for each of many candidates**. The
# arithmetic below never asks which.

# %%
Number = Any
Handler = Callable[[str, "Support"], Any]


class ScheduleError(Exception):
    """This transformation would be wrong here."""


@dataclass(frozen=True)
class Loop:
    name: str
    axis: str
    stride: Number
    extent: Number
    kind: str = "serial"  # or "vector", or "unroll"


@dataclass(frozen=True)
class Line:
    """One line of a trace: `i0, i1 = split(i, ti)` or `ti ~ sample_tile(i) := 8`."""

    outputs: tuple[str, ...]
    op: str
    args: tuple[str | int, ...]
    decision: Any = None
    random: bool = False

    def __str__(self) -> str:
        left = f"{', '.join(self.outputs)} {'~' if self.random else '='} " if self.outputs else ""
        right = f" := {self.decision}" if self.random else ""
        return f"{left}{self.op}({', '.join(map(str, self.args))}){right}"


class Schedule:
    """Loops, the values of random variables, and the trace of how they came about."""

    def __init__(self, program: Program, handler: Handler) -> None:
        self.program = program
        self.handler = handler
        self.loops = [Loop(axis, axis, 1, extent) for axis, extent in program.axes.items()]
        self.values: dict[str, Number] = {}
        self.legal: Number = True
        self.trace: list[Line] = []

    def __getitem__(self, name: str) -> Loop:
        return next(loop for loop in self.loops if loop.name == name)

    def require(self, condition: Number, otherwise: str) -> None:
        """A precondition. Of one program it is true or an error; of many at once it is a mask."""
        if isinstance(condition, np.ndarray):
            self.legal = self.legal & condition
        elif not condition:
            raise ScheduleError(otherwise)

    # --- transformations: each a few lines, and each leaves its line in the trace

    def split(self, name: str, factor: str) -> tuple[str, str]:
        loop, inner, at = self[name], self.values[factor], self.loops.index(self[name])
        outer = replace(loop, name=f"{name}0", stride=loop.stride * inner, extent=-(-loop.extent // inner))
        self.loops[at : at + 1] = [outer, replace(loop, name=f"{name}1", extent=inner)]
        self.trace.append(Line((f"{name}0", f"{name}1"), "split", (name, factor)))
        return f"{name}0", f"{name}1"

    def reorder(self, *names: str) -> None:
        self.require(sorted(names) == sorted(loop.name for loop in self.loops), "reorder names every loop once")
        loops = [self[name] for name in names]
        coarse_first = all(
            [p for p in loops if p.axis == axis] == [p for p in self.loops if p.axis == axis]
            for axis in self.program.axes
        )
        self.require(coarse_first, "the pieces of an axis stay in order")
        self.loops = loops
        self.trace.append(Line((), "reorder", names))

    def vectorize(self, name: str) -> None:
        along = [axes for axes in self.program.buffers.values() if self[name].axis in axes]
        self.require(all(axes[-1] == self[name].axis for axes in along), f"{name} is not contiguous")
        self.annotate(name, "vector")
        self.trace.append(Line((), "vectorize", (name,)))

    def unroll(self, name: str) -> None:
        """Write out the innermost loop; only for a summed axis that is cut into whole pieces."""
        axis, output = self[name].axis, next(iter(self.program.buffers.values()))
        cover = math.prod(loop.extent for loop in self.loops if loop.axis == axis)
        self.require(self.loops[-1].name == name and axis not in output, f"cannot unroll {name} here")
        self.require(cover == self.program.axes[axis], f"the pieces of {axis} are not whole")
        self.annotate(name, "unroll")
        self.trace.append(Line((), "unroll", (name,)))

    def annotate(self, name: str, kind: str) -> None:
        self.loops = [replace(loop, kind=kind) if loop.name == name else loop for loop in self.loops]

    # --- random variables, where a person would have guessed (part 3)

    def sample_tile(self, name: str, loop: str) -> str:
        return self._sample(name, "sample_tile", (loop,), Tile(self[loop].extent))

    def sample_categorical(self, name: str, *options: int) -> str:
        return self._sample(name, "sample_categorical", options, OneOf(options))

    def choose(self, name: str, *options: str) -> str:
        self._sample(name, "choose", options, OneOf(options, structural=True))
        return self.values[name]  # type: ignore[no-any-return]

    def _sample(self, name: str, op: str, args: tuple[Any, ...], support: Support) -> str:
        self.values[name] = decision = self.handler(name, support)
        self.trace.append(Line((name,), op, args, decision, random=True))
        return name


# %% [markdown]
# ## 3. Idea one: a schedule module is a probabilistic program
#
# A module is a plain function. Where a person would guess a number, it samples one; where they would guess a structure,
# it calls `choose`, and gets a plain value that `if` works on. A sampled number stays a *name* (`ti` below is "ti"), so
# that a module cannot branch on it: numbers never change structure.


# %%
@dataclass(frozen=True)
class Tile:
    """The size of an inner tile: half of the time a power of two, else anything up to 64."""

    extent: Number
    structural = False
    options = ()

    def sample(self, rng: np.random.Generator, rows: int | None = None) -> Number:
        size = np.where(rng.random(rows) < 0.5, 2 ** rng.integers(0, 7, rows), rng.integers(1, 65, rows))
        size = np.minimum(size, self.extent)
        return int(size) if rows is None else size


@dataclass(frozen=True)
class OneOf:
    options: tuple[Any, ...]
    structural: bool = False

    def sample(self, rng: np.random.Generator, rows: int | None = None) -> Any:
        at = rng.integers(len(self.options), size=rows)
        return self.options[at] if rows is None else np.array(self.options)[at]


Support = Tile | OneOf
Module = Callable[[Schedule], None]


def tile(sch: Schedule) -> None:
    """Cut all three axes; which tile is outermost is a choice of structure."""
    i0, i1 = sch.split("i", sch.sample_tile("ti", "i"))
    j0, j1 = sch.split("j", sch.sample_tile("tj", "j"))
    k0, k1 = sch.split("k", sch.sample_tile("tk", "k"))
    k2, k3 = sch.split(k1, sch.sample_categorical("unroll", 1, 2, 4, 8))
    if sch.choose("outermost", "output", "sum") == "output":
        sch.reorder(i0, j0, k0, i1, k2, j1, k3)
    else:
        sch.reorder(k0, i0, j0, i1, k2, j1, k3)
    sch.vectorize(j1)
    sch.unroll(k3)


# %% [markdown]
# ## 4. Idea two: one interpreter, several handlers
#
# Nothing above says where decisions come from. That is a handler's business, and a handler is one small function.


# %%
def record(seed: int) -> Handler:
    """Draw every decision. Each name has its own random stream: adding a variable leaves the others alone."""
    return lambda name, support: support.sample(np.random.default_rng([seed, zlib.crc32(name.encode())]))


def replaying(decisions: dict[str, Any]) -> Handler:
    """Take every decision from a trace, matched by name and never by position."""
    return lambda name, support: decisions[name]


def mutating(decisions: dict[str, Any], site: str, rng: np.random.Generator) -> Handler:
    """Replay all decisions but one."""
    return lambda name, support: support.sample(rng) if name == site else decisions[name]


def structures(module: Module, program: Program) -> Iterator[list[Line]]:
    """Enumerate: run the module once for every combination of its `choose`s."""
    stack: list[dict[str, Any]] = [{}]
    while stack:
        forced = stack.pop()

        def take(name: str, support: Support, forced: dict[str, Any] = forced) -> Any:
            if not support.structural:
                return 1  # numbers are left open: any will do
            if name not in forced:
                stack.extend({**forced, name: option} for option in support.options[1:])
                forced[name] = support.options[0]
            return forced[name]

        sch = Schedule(program, take)
        module(sch)
        yield sch.trace


# %% [markdown]
# ## 5. Idea three: a trace is a program too
#
# What a run leaves behind is a straight line of instructions with the decisions filled in. It prints, parses, can be
# edited by hand, and runs by itself: the module that made it may be gone. This text is all that a database has to keep.

# %%
LINE = re.compile(r"(?:(.+?) ([=~]) )?(\w+)\((.*)\)(?: := (\w+))?")


def show(trace: list[Line]) -> str:
    return "\n".join(map(str, trace))


def parse_trace(text: str) -> list[Line]:
    def value(word: str) -> str | int:
        return int(word) if word.isdigit() else word

    lines = []
    for match in map(LINE.fullmatch, text.splitlines()):
        assert match, "not a line of a trace"
        left, sign, op, args, decision = match.groups(default="")
        outputs = tuple(left.split(", ")) if left else ()
        lines.append(Line(outputs, op, tuple(map(value, args.split(", "))), value(decision) or None, sign == "~"))
    return lines


def apply(trace: list[Line], program: Program, handler: Handler) -> Schedule:
    sch = Schedule(program, handler)
    for line in trace:
        getattr(sch, line.op)(*(line.outputs if line.random else ()), *line.args)
    return sch


def decisions(trace: list[Line]) -> dict[str, Any]:
    return {line.outputs[0]: line.decision for line in trace if line.random}


# %% [markdown]
# ## 6. Idea four: a sketch is a parametric program
#
# Fix the structure, leave the numbers free, and apply the trace **once**, with a column of numbers for each variable.
# Extents become columns, preconditions become masks, and so a population is scored without replaying anyone.
# (Here NumPy arrays flow through the schedule itself. The real sketch holds expressions such as `ceildiv(512, t1)`,
# which can be printed and compiled as well.)


# %%
def population(sketch: list[Line], program: Program, columns: dict[str, np.ndarray] | int, seed: int = 0) -> Schedule:
    """The sketch over many candidates: the columns given, or as many fresh draws as asked for."""
    fixed = decisions(sketch)
    rng = np.random.default_rng(seed)

    def take(name: str, support: Support) -> Any:
        if support.structural:
            return fixed[name]
        return support.sample(rng, columns) if isinstance(columns, int) else columns[name]

    return apply(sketch, program, take)


def one(people: Schedule, row: int) -> dict[str, Any]:
    """The decisions of one candidate."""
    return {name: int(v[row]) if isinstance(v, np.ndarray) else v for name, v in people.values.items()}


def features(sch: Schedule) -> np.ndarray:
    """What a cost model should see: for every loop, its trips, and the elements of each buffer touched under it.

    Works for one schedule and for a population alike: the result has a row per candidate.
    """
    out = []
    reach: dict[str, Number] = dict.fromkeys(sch.program.axes, 1)
    for loop in reversed(sch.loops):
        reach[loop.axis] = reach[loop.axis] * loop.extent
        touched = [math.prod(reach[axis] for axis in axes) for axes in sch.program.buffers.values()]
        out += [np.log2(number) for number in (loop.extent, *touched)]
    return np.stack(np.broadcast_arrays(*out), axis=-1).reshape(-1, len(out)).astype(np.float64)


# %% [markdown]
# ## 7. Ideas five and six: no hidden choice, and Numba makes the machine code
#
# Emission reads the loops and chooses nothing. A tile that does not fit is clipped where its axis becomes known: 250
# columns in tiles of 48 leave a last tile of 10. (The real compiler writes LLVM itself, with its own vectors and
# accumulators in registers, and compiles a candidate in a tenth of the time. Here we leave the vectors to LLVM.)


# %%
def emit(sch: Schedule) -> str:
    loops, last = [loop for loop in sch.loops if loop.kind != "unroll"], sch.loops[-1]
    text = [f"def kernel({', '.join(sch.program.buffers)}):"]
    for depth, loop in enumerate(loops):
        size, peers = sch.program.axes[loop.axis], [peer for peer in sch.loops if peer.axis == loop.axis]
        bound = str(loop.extent)
        if loop is peers[-1] and math.prod(peer.extent for peer in peers) != size:
            bound = f"min({bound}, {' - '.join([str(size), *map(term, peers[:-1])])})"
        text.append(f"{'    ' * (depth + 1)}for {loop.name} in range({bound}):")

    def element(buffer: str, step: int = 0) -> str:
        sums = [[term(loop) for loop in loops if loop.axis == axis] for axis in sch.program.buffers[buffer]]
        if step:
            sums[sch.program.buffers[buffer].index(last.axis)].append(str(step))
        return f"{buffer}[{', '.join(' + '.join(terms) for terms in sums)}]"

    out, *operands = sch.program.buffers
    steps = range(last.extent) if last.kind == "unroll" else [0]
    products = [" * ".join(element(name, step) for name in operands) for step in steps]
    text.append(f"{'    ' * (len(loops) + 1)}{element(out)} += {' + '.join(products)}")
    return "\n".join(text)


def term(loop: Loop) -> str:
    return loop.name if loop.stride == 1 else f"{loop.name} * {loop.stride}"


def build(sch: Schedule) -> Callable[..., None]:
    space: dict[str, Any] = {}
    exec(emit(sch), space)
    compiled: Callable[..., None] = numba.njit(fastmath=True)(space["kernel"])
    return compiled


def measure(sch: Schedule, inputs: list[np.ndarray], expected: np.ndarray) -> float:
    """Seconds of the fastest of five runs, once the result has proved right."""
    kernel, seconds = build(sch), []
    for _ in range(6):
        out = np.zeros_like(expected, dtype=np.float32)
        start = time.perf_counter()
        kernel(out, *inputs)
        seconds.append(time.perf_counter() - start)
        assert np.abs(out - expected).max() < 1e-3, "a schedule changed the program's meaning"
    return min(seconds[1:])  # the first run compiles


# %% [markdown]
# ## 8. The search
#
# A model is fitted to what was measured so far: least squares over the features and their squares, on the logarithm of
# the time. (The real one is LightGBM.) Evolution proposes, the model picks, the clock decides.


# %%
def fit(x: np.ndarray, y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    mean, spread = x.mean(0), x.std(0) + 1e-9

    def basis(rows: np.ndarray) -> np.ndarray:
        z = (rows - mean) / spread
        return np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)

    b = basis(x)
    weights = np.linalg.solve(b.T @ b + 0.1 * np.eye(b.shape[1]), b.T @ y)
    return lambda rows: basis(rows) @ weights


def evolve(sketch: list[Line], program: Program, score: Callable[[np.ndarray], np.ndarray], seed: int) -> Schedule:
    """A population that scores well: array arithmetic throughout, a thousand candidates at a time."""
    rng = np.random.default_rng(seed)
    people = population(sketch, program, 1000, seed)
    for generation in range(4):
        cost = np.where(people.legal, score(features(people)), np.inf)
        best = np.argsort(cost)[:100]
        mother, father = rng.choice(best, 900), rng.choice(best, 900)
        fresh = population(sketch, program, 900, seed + generation + 1).values
        columns = {}
        for name, column in people.values.items():
            if isinstance(column, np.ndarray):
                child = np.where(rng.random(900) < 0.5, column[mother], column[father])  # cross over
                child = np.where(rng.random(900) < 0.15, fresh[name], child)  # mutate
                columns[name] = np.concatenate([column[best], child])
        people = population(sketch, program, columns)
    return people


def tune(program: Program, module: Module, rounds: int = 4, batch: int = 4, seed: int = 0) -> tuple[str, float]:
    """The best trace, as text, and its time in seconds."""
    rng = np.random.default_rng(seed)
    inputs = [rng.random(program.shape(name), np.float32) for name in list(program.buffers)[1:]]
    expected = reference(program, *inputs)
    sketches = list(structures(module, program))
    score: Callable[[np.ndarray], np.ndarray] = lambda rows: rng.random(len(rows))  # noqa: E731 - nothing known yet
    seen: dict[str, tuple[float, np.ndarray]] = {}
    for number in range(rounds):
        proposals = []
        for sketch in sketches:
            people = evolve(sketch, program, score, seed=100 * number)
            cost = np.where(people.legal, score(features(people)), np.inf)
            proposals += [(cost[row], sketch, one(people, row)) for row in np.argsort(cost)[: people.legal.sum()]]
        budget = batch
        for _, sketch, decided in sorted(proposals, key=lambda proposal: proposal[0]):
            sch = apply(sketch, program, replaying(decided))
            if show(sch.trace) not in seen and budget:
                seen[show(sch.trace)] = measure(sch, inputs, expected), features(sch)[0]
                budget -= 1
        times, rows = map(np.array, zip(*seen.values(), strict=True))
        score = fit(rows, np.log(times))
        print(f"round {number}: {len(seen)} measured, best {1e3 * times.min():.2f} ms")
    best = min(seen, key=lambda text: seen[text][0])
    return best, seen[best][0]


# %% [markdown]
# ## 9. All of it at work
#
# Record: one draw from the space. The trace is text, and text is a trace.

# %%
sch = Schedule(matmul, record(seed=21))
tile(sch)
print(show(sch.trace))
assert parse_trace(show(sch.trace)) == sch.trace

# %% [markdown]
# Mutate: the same trace, one decision drawn again.

# %%
mutant = apply(sch.trace, matmul, mutating(decisions(sch.trace), "ti", np.random.default_rng(1)))
print(f"ti was {sch.values['ti']}, and is {mutant.values['ti']}")

# %% [markdown]
# The law that makes sketches trustworthy: what a population says of a row is what the row's own program says.

# %%
sketches = list(structures(tile, matmul))
thousand = population(sketches[0], matmul, 1000)
table = features(thousand)
for row in np.flatnonzero(thousand.legal)[:10]:
    alone = apply(sketches[0], matmul, replaying(one(thousand, row)))
    assert np.array_equal(features(alone)[0], table[row])
print(f"{len(sketches)} sketches; {thousand.legal.sum()} of 1000 random candidates of the first are legal")

# %% [markdown]
# Tune, and look at what was found: its trace, and the code that it stands for.

# %%
best, seconds = tune(matmul, tile)
print(f"\n{best}\n")
winner = apply(parse_trace(best), matmul, replaying(decisions(parse_trace(best))))
print(emit(winner))

# %% [markdown]
# Its speed, next to that of the program as it was written:

# %%
arrays = [np.random.default_rng(0).random(matmul.shape(name), np.float32) for name in "AB"]
unscheduled = measure(Schedule(matmul, record(0)), arrays, reference(matmul, *arrays))
work = 2 * math.prod(matmul.axes.values()) / 1e9
print(f"unscheduled {work / unscheduled:.1f} GFLOP/s, tuned {work / seconds:.1f} GFLOP/s")
