"""Long operations that are the same in all iterations of a loop: they come before it, into a register.

These are divisions and costly functions. Anything else takes less time than the register is worth that would hold it
throughout a loop. LLVM's few passes leave them where they are if they read what another nest wrote.

What runs under a condition stays there, since what it reads may not be there otherwise. So does what each lane of a
vector has its own value of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from metasched.compiler.lir import ArrayKind
from metasched.compiler.lower.nest import (
    Assign,
    Many,
    NameSupply,
    NestLoop,
    NestStmt,
    assigns,
    join_statements,
    loads,
    loops,
    map_children,
    replace_body,
)
from metasched.compiler.lower.storage import Storage
from metasched.functions.registry import functions
from metasched.ir.integers.affine import ZERO, free_vars
from metasched.ir.nodes import Binary, BinOp, Call, Expr, Load, LoopKind, Select
from metasched.support.data_classes import dataclass


def lift_invariants(stmt: NestStmt, names: NameSupply) -> tuple[NestStmt, Mapping[str, Storage]]:
    """`stmt` with registers for what its loops would compute in each iteration anew, and their storage by name."""
    lifting = _Lifting(names)
    return lifting.rewrite(stmt), lifting.made


@dataclass
class _Lifting:
    """The registers made so far."""

    names: NameSupply
    made: dict[str, Storage] = field(default_factory=dict)

    def rewrite(self, stmt: NestStmt) -> NestStmt:
        """`stmt`, each loop of it with what it need not compute again before it."""
        if not isinstance(stmt, NestLoop):
            return map_children(stmt, self.rewrite)
        if not stmt.is_vector and stmt.tensor is None:
            stmt = replace_body(stmt, self.rewrite(stmt.body))
        if not _runs_always(stmt) or stmt.steps == 1:
            return stmt
        body = _Body(self, frozenset(loop.var for loop in loops(stmt)), _written(stmt))
        inside = body.statement(stmt.body)
        return join_statements([*body.before, replace_body(stmt, inside)])


@dataclass
class _Body:
    """The body of a loop: what its iterations change, and what was found that they do not."""

    lifting: _Lifting
    variables: frozenset[str]
    written: frozenset[str]
    before: list[Assign] = field(default_factory=list)

    def statement(self, stmt: NestStmt) -> NestStmt:
        """What is left of a statement in the loop: nothing of what an inner loop has in a register that is the same
        in this one, too."""
        if isinstance(stmt, NestLoop) and not _runs_always(stmt):
            return stmt
        if isinstance(stmt, NestLoop | Many):
            return map_children(stmt, self.statement)
        if not isinstance(stmt, Assign) or stmt.guards or stmt.wanted:
            return stmt
        if stmt.array in self.lifting.made and self._is_invariant(stmt.value):
            self.before.append(stmt)
            return Many(())
        return replace(stmt, value=self._value(stmt.value, stmt))

    def _value(self, e: Expr, of: Assign) -> Expr:
        if isinstance(e, Load):
            return e
        if isinstance(e, Select):
            return replace(e, cond=self._value(e.cond, of))
        if isinstance(e, Binary) and e.op.is_logical:
            return replace(e, a=self._value(e.a, of))
        if _is_long(e) and self._is_invariant(e):
            return Load(self._register(e, of), (ZERO,), e.dtype)
        return e.map(lambda child: self._value(child, of))

    def _is_invariant(self, e: Expr) -> bool:
        arrays = (load.buffer for load in loads(e))
        return self.variables.isdisjoint(free_vars(e)) and self.written.isdisjoint(arrays)

    def _register(self, e: Expr, of: Assign) -> str:
        """The register of a value, with the arithmetic that the statement it is from allows."""
        known = (one.array for one in self.before if one.value == e and one.fast == of.fast)
        name = next(known, None)
        if name is None:
            name = self.lifting.names.fresh(f"{of.array}.same")
            self.lifting.made[name] = Storage(name, e.dtype, (1,), (ZERO,), ArrayKind.REGISTER, (0,))
            self.before.append(Assign(of.block, name, (ZERO,), e, fast=of.fast))
        return name


def _runs_always(loop: NestLoop) -> bool:
    """Whether a loop runs, all of it, whenever what is before it does."""
    return loop.kind in (LoopKind.SERIAL, LoopKind.VECTORIZED) and not loop.clips and loop.tensor is None


def _written(stmt: NestStmt) -> frozenset[str]:
    return frozenset(array for _, assign in assigns(stmt) for array in assign.written)


def _is_long(e: Expr) -> bool:
    """Whether an operation takes as long as a division, in the type of its result."""
    if e.dtype.compute is not e.dtype:
        return False
    return (isinstance(e, Binary) and e.op is BinOp.DIV) or (isinstance(e, Call) and functions()[e.func].costly)
