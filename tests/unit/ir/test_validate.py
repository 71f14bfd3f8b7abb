"""Each rule of a well-formed program, broken once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from metasched.dtypes import DType
from metasched.ir import query
from metasched.ir.integers.affine import const
from metasched.ir.nodes import (
    Alignment,
    Binary,
    BinOp,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    Func,
    IndexMap,
    IterKind,
    IterVar,
    Load,
    LoopKind,
    Reducer,
    Scalar,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    seq,
)
from metasched.ir.validate import InvalidProgram, validate

F32 = DType.F32
ZERO = Const(0.0, F32)
i, j, k, k_0, k_1 = (Var(n) for n in ("i", "j", "k", "k_0", "k_1"))


def spatial(name: str, extent: int) -> IterVar:
    return IterVar(name, const(extent), IterKind.SPATIAL)


def reduce(name: str, extent: int) -> IterVar:
    return IterVar(name, const(extent), IterKind.REDUCE)


def load(name: str, *indices: Expr) -> Load:
    return Load(name, indices, F32)


def loops(block: Stmt, *spec: tuple[str, int]) -> Stmt:
    for var, extent in reversed(spec):
        block = For(var, const(extent), block)
    return block


SUM = Block(
    "sum",
    (spatial("i", 4), reduce("k", 6)),
    (i, k_0 * 2 + k_1),
    (),
    Store("C", (i,), load("A", i, k)),
    Reducer.SUM,
    ZERO,
)
NEG = Block("neg", (spatial("i", 4),), (j,), (), Store("D", (i,), -load("C", i)))


def rows(first: Block = SUM, second: Block = NEG) -> Func:
    return Func(
        "rows",
        (Buffer("A", (const(4), const(6)), F32),),
        (),
        ("A",),
        (Buffer("D", (const(4),), F32),),
        (Buffer("C", (const(4),), F32),),
        Seq((loops(first, ("i", 4), ("k_0", 3), ("k_1", 2)), loops(second, ("j", 4)))),
    )


def change(which: str, /, **fields: object) -> Callable[[], Func]:
    """The program with fields of a block changed."""

    def build() -> Func:
        return rows(replace(SUM, **fields)) if which == "sum" else rows(second=replace(NEG, **fields))

    return build


def loop(old_var: str, /, **fields: object) -> Callable[[], Func]:
    def build() -> Func:
        func = rows()
        old = query.find_loop(func, old_var)
        return query.replace_stmt(func, old, replace(old, **fields))

    return build


def func(**fields: object) -> Callable[[], Func]:
    return lambda: replace(rows(), **fields)


def test_a_good_program() -> None:
    validate(rows())


def twice() -> Func:
    f = rows()
    return replace(f, body=seq((f.body, loops(replace(NEG, name="again", bindings=(Var("l"),)), ("l", 4)))))


def backwards() -> Func:
    f = rows()
    assert isinstance(f.body, Seq)
    return replace(f, body=Seq(tuple(reversed(f.body.stmts))))


def nested() -> Func:
    f = rows()
    assert isinstance(f.body, Seq)
    return replace(f, body=Seq((f.body.stmts[0], Seq((f.body.stmts[1],)))))


def read_early() -> Func:
    """`neg` under the reduction loop of what it reads."""
    f = rows()
    init = Block("sum.init", (spatial("i", 4),), (Var("n"),), (), Store("C", (i,), ZERO))
    stmts = (
        loops(init, ("n", 4)),
        loops(NEG, ("j", 4)),
        loops(replace(SUM, init=None), ("i", 4), ("k_0", 3), ("k_1", 2)),
    )
    return replace(f, body=Seq(stmts))


less = Binary(BinOp.LT, k_0 * 2 + k_1, const(5))

FILL = Block("neg.fill", (spatial("i", 4),), (j,), (), Store("D", (i,), ZERO))


def over_fill(*blocks: Block) -> Func:
    """The sum, and then blocks that write its negation."""
    f = rows()
    assert isinstance(f.body, Seq)
    nests = []
    for n, block in enumerate(blocks):
        var = block.bindings[0]
        assert isinstance(var, Var)
        renamed = {var.name: Var(f"l{n}")}
        moved = query.substitute_block(block, renamed, lambda e: e)
        nests.append(loops(replace(moved, name=block.name if n < 2 else f"{block.name}_{n}"), (f"l{n}", 4)))
    return replace(f, body=seq((f.body.stmts[0], *nests)))


def laid_out(kind: str, name: str, layout: IndexMap | None, *alignments: Alignment) -> Func:
    f = rows()
    new = tuple(replace(b, layout=layout, alignments=alignments) if b.name == name else b for b in getattr(f, kind))
    return replace(f, **{kind: new})


def test_a_part_is_written_over_a_fill() -> None:
    validate(over_fill(FILL, replace(NEG, guards=(j < 3,))))


BROKEN: list[tuple[str, Callable[[], Func], str]] = [
    ("loops of one name", loop("j", var="i"), "the name `i` stands for more than one loop"),
    ("blocks of one name", change("neg", name="sum"), "the name `sum` stands for more than one block"),
    ("buffers of one name", func(temps=(*rows().temps, *rows().temps)), "the name `C` stands for more than one buffer"),
    ("order of arguments", func(order=("B",)), "the arguments' order lists ['B'], the arguments are ['A']"),
    ("nested sequence", nested, "a sequence is directly inside another"),
    ("short sequence", nested, "a sequence holds fewer than two statements"),
    ("negative loop", loop("j", extent=const(-1)), "loop `j`: extent -1 is less than 0"),
    ("free extent", loop("j", extent=Var("t")), "loop `j`: extent t depends on `t`"),
    ("shape", func(outputs=(Buffer("D", (Var("n"),), F32),)), "buffer `D`: dimension n depends on `n`"),
    ("lanes missing", loop("j", kind=LoopKind.VECTORIZED), "loop `j`: it is vectorized without a number of lanes"),
    ("lanes superfluous", loop("j", lanes=const(4)), "loop `j`: it has lanes and is not vectorized but for"),
    (
        "parallel reduction",
        loop("k_0", kind=LoopKind.PARALLEL),
        "loop `k_0`: it is parallel, and `sum` reduces over it",
    ),
    (
        "iters of one name",
        change("sum", iters=(spatial("i", 4), reduce("i", 6))),
        "iteration variable `i` is there twice",
    ),
    ("too few bindings", change("neg", bindings=()), "block `neg`: 1 iteration variables have 0 bindings"),
    ("unbound loop", change("neg", bindings=(i,)), "block `neg`: binding of `i`: `i` is no loop around the block"),
    (
        "iteration variable of an argument's name",
        func(scalars=(Scalar("i", DType.I64),), order=("A", "i")),
        "block `sum`: its iteration variable `i` has the name of a scalar argument",
    ),
    (
        "product of loops",
        change("sum", bindings=(i, k_0 * k_1)),
        "binding of `k`: k_0*k_1 is not quasi-affine in the loops",
    ),
    ("data in a binding", change("neg", bindings=(Load("A", (j, j), DType.I64),)), "binding of `i`: it reads a buffer"),
    ("guard of a number", change("neg", guards=(j,)), "block `neg`: guard j is not a condition"),
    ("guard of a stranger", change("neg", guards=(k < 3,)), "guard k < 3 uses `k`, which is no loop around the block"),
    (
        "unknown target",
        change("neg", store=Store("Z", (i,), ZERO)),
        "block `neg`: it writes `Z`, which is not declared",
    ),
    ("input written", change("neg", store=Store("A", (i, i), ZERO)), "block `neg`: it writes the input `A`"),
    ("rank of a write", change("neg", store=Store("D", (), ZERO)), "it writes `D` of rank 1 with 0 indices"),
    (
        "shifted write",
        change("neg", store=Store("D", (i + 1,), ZERO)),
        "it writes `D` at i + 1, which is not one of its",
    ),
    ("write at a reduction", change("sum", store=replace(SUM.store, indices=(k,))), "it writes `C` at its reduction"),
    ("short write", change("neg", iters=(spatial("i", 3),)), "`i` has 3 values, its dimension of `D` 4"),
    (
        "spatial variable left out",
        change("neg", iters=(spatial("i", 4), spatial("n", 2)), bindings=(j, const(0))),
        "block `neg`: `n` is spatial, and does not index `D`",
    ),
    ("no reducer", change("sum", reducer=None, init=None), "`k` is a reduction variable, and there is no reduction"),
    ("init of a store", change("neg", init=ZERO), "block `neg`: it has an `init`, and is no reduction"),
    ("init of a term", change("sum", init=load("A", i, Var("k"))), "its `init` depends on more than the element"),
    (
        "loop in a value",
        change("neg", store=Store("D", (i,), load("C", j))),
        "it uses `j`, which is not one of its iteration variables",
    ),
    ("dtype of a write", change("neg", store=Store("D", (i,), Const(0))), "it writes i64 to `D` of f32"),
    ("unknown source", change("neg", store=Store("D", (i,), load("Z", i))), "it reads `Z`, which is not declared"),
    ("own result", change("neg", store=Store("D", (i,), load("D", i))), "it reads `D`, which it writes"),
    ("rank of a read", change("neg", store=Store("D", (i,), load("C"))), "it reads `C` of rank 1 with 0 indices"),
    (
        "dtype of a read",
        change("neg", store=Store("D", (i,), Load("C", (i,), DType.F64))),
        "it reads `C` of f32 as f64",
    ),
    ("dtype of an index", change("neg", store=Store("D", (i,), load("C", ZERO))), "it reads `C` at an index of f32"),
    ("order of stages", backwards, "block `neg`: it reads `C` before anything writes it"),
    ("read too early", read_early, "block `neg`: it reads `C` before it is complete"),
    ("nothing written", func(temps=(*rows().temps, Buffer("E", (), F32))), "nothing writes `E`"),
    ("no initialisation", change("sum", init=None), "it accumulates into `C`, which nothing initialises"),
    ("two writers", twice, "`neg` and `again` both write `D`"),
    ("outside the domain", change("neg", bindings=(j + 1,)), "block `neg`: `i` leaves its domain of 4"),
    ("not all", change("neg", guards=(j < 3,)), "block `neg`: instance (i = 3) does not run"),
    ("more than once", change("neg", bindings=(j // 2,)), "block `neg`: instance (i = 0) runs 2 times"),
    ("term left out", change("sum", guards=(less,)), "block `sum`: instance (i = 0, k = 5) does not run"),
    (
        "term twice",
        change("sum", bindings=(i, k_0 * 2)),
        "block `sum`: instance (i = 0, k = 1) does not run",
    ),
    ("fill over a result", lambda: over_fill(NEG, FILL), "`neg` and `neg.fill` both write `D`"),
    ("two over a fill", lambda: over_fill(FILL, NEG, NEG), "both write `D`"),
    ("a fill that is not all", lambda: over_fill(replace(FILL, guards=(j < 3,)), NEG), "(i = 3) does not run"),
    ("layout of an input", lambda: laid_out("inputs", "A", IndexMap(("a", "b"), (i, j))), "it is the caller's"),
    ("rank of a layout", lambda: laid_out("temps", "C", IndexMap(("a", "b"), (i,))), "has 2 indices, and it has 1"),
    ("size of a layout", lambda: laid_out("temps", "C", IndexMap(("a",), (Var("a") // Var("t"),))), "uses `t`"),
    ("layout", lambda: laid_out("temps", "C", IndexMap(("a",), (Var("a") // 2,))), "does not keep `a` apart"),
    ("rows", lambda: laid_out("temps", "C", None, Alignment(0, const(4), const(0))), "dimension 0 is aligned"),
    ("never", change("sum", guards=(i > 5,)), "block `neg`: it reads elements of `C` that nothing writes"),
]


@pytest.mark.parametrize(("build", "violation"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_rule(build: Callable[[], Func], violation: str) -> None:
    with pytest.raises(InvalidProgram) as error:
        validate(build())
    assert any(violation in found for found in error.value.violations), error.value.violations


def test_all_violations_are_listed_with_the_program() -> None:
    broken = rows(replace(SUM, init=None), replace(NEG, guards=(j,)))
    with pytest.raises(InvalidProgram) as error:
        validate(broken)
    assert len(error.value.violations) == 2
    assert "neg: D[i] = -C[i]" in str(error.value)


def test_free_tile_variables_are_named() -> None:
    tiled = replace(rows(), body=rows().body)
    outer = For("j", Binary(BinOp.CEILDIV, const(4), Var("t")), For("j_1", Var("t"), NEG))
    neg = replace(NEG, bindings=(j * Var("t") + Var("j_1"),), guards=(j * Var("t") + Var("j_1") < 4,))
    assert isinstance(tiled.body, Seq)
    tiled = replace(tiled, body=Seq((tiled.body.stmts[0], query.edit(outer, NEG, neg))))  # type: ignore[arg-type]
    validate(tiled, free=("t",))
    with pytest.raises(InvalidProgram, match="depends on `t`"):
        validate(tiled)


def recomputed(kind: LoopKind, reads: Expr, guard: Expr | None = None) -> Func:
    """`twice` writes X at 2*n + m for m < 3, the last of which the next n writes, too, and `use` reads it."""
    n, m = Var("n"), Var("m")
    value = load("A", i)
    a = Block("twice", (spatial("i", 9),), (n * 2 + m,), (), Store("X", (i,), value))
    use = Block("use", (spatial("i", 4),), (n,), (), Store("Y", (i,), reads))
    body = For(
        "n", const(4), Seq((For("m", const(3), a), use)), kind, const(4) if kind is LoopKind.VECTORIZED else None
    )
    shape = (const(9),)
    return Func(
        "halo",
        (Buffer("A", shape, F32),),
        (),
        ("A",),
        (Buffer("Y", (const(4),), F32),),
        (Buffer("X", shape, F32),),
        body,
    )


@pytest.mark.parametrize("kind", list(LoopKind))
def test_intermediate_results_may_be_computed_again(kind: LoopKind) -> None:
    validate(recomputed(kind, load("X", i * 2) + load("X", i * 2 + 2)))


def test_parallel_iterations_do_not_read_what_others_write() -> None:
    across = load("X", i * 2 + 3)
    guarded = Select(i < 3, across, ZERO)
    validate(recomputed(LoopKind.PARALLEL, guarded))  # reads under a condition are not looked at
    with pytest.raises(InvalidProgram, match="`use` reads elements of `X` that other iterations write"):
        validate(recomputed(LoopKind.PARALLEL, across))


def test_parallel_iterations_do_not_write_the_same_shared_elements() -> None:
    f = recomputed(LoopKind.PARALLEL, load("X", i * 2))
    after = Block("after", (spatial("i", 9),), (Var("l"),), (), Store("Z", (i,), load("X", i)))
    f = replace(f, body=seq((f.body, loops(after, ("l", 9)))), outputs=(*f.outputs, Buffer("Z", (const(9),), F32)))
    with pytest.raises(InvalidProgram, match="several iterations write the same elements of `X`"):
        validate(f)


def partial_sums(body: Callable[[Block], Stmt], *bindings: Expr) -> Func:
    """Six terms in two partial sums of four, in the loops that `body` puts around the block."""
    part = Block(
        "part",
        (spatial("o", 2), reduce("k", 4)),
        bindings,
        (bindings[0] * 4 + bindings[1] < 6,),
        Store("P", (Var("o"),), load("A", Var("o") * 4 + k)),
        Reducer.SUM,
        ZERO,
    )
    return Func(
        "parts",
        (Buffer("A", (const(6),), F32),),
        (Scalar("alpha", F32),),
        ("alpha", "A"),
        (Buffer("P", (const(2),), F32),),
        (),
        body(part),
    )


def test_partial_sums_may_leave_combinations_out() -> None:
    validate(partial_sums(lambda part: loops(part, ("o", 2), ("k", 4)), Var("o"), k))


def test_partial_sums_may_leave_combinations_out_of_a_fused_loop() -> None:
    fused = Var("f")
    f = partial_sums(lambda part: loops(replace(part, guards=(fused < 6,)), ("f", 8)), fused // 4, fused % 4)
    validate(f)


def test_parallel_iterations_read_a_partial_sum_without_terms() -> None:
    none = replace(SUM, iters=(spatial("o", 3), reduce("k", 1)), bindings=(Var("o"), k), guards=(k * 3 + Var("o") < 2,))
    none = replace(none, name="part", store=Store("P", (Var("o"),), load("A", k * 3 + Var("o"))))
    after = Block("after", (spatial("o", 3),), (Var("o"),), (), Store("Q", (Var("o"),), load("P", Var("o"))))
    shared = For("o", const(3), seq((loops(none, ("k", 1)), after)), LoopKind.PARALLEL)
    f = partial_sums(lambda _: shared, Var("o"), k)
    parts, outs = Buffer("P", (const(3),), F32), Buffer("Q", (const(3),), F32)
    validate(replace(f, outputs=(outs,), temps=(parts,)))
