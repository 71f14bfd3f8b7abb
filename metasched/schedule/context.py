"""The state that a primitive works on: the current program, and how to state preconditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.integers.affine import NotAffine, free_vars, simplify, substitute
from metasched.ir.integers.ranges import bounds, prove
from metasched.ir.nodes import Binary, BinOp, Block, Const, Expr, For, Func, Var
from metasched.permissions import BY_DEFAULT, Allowed, Permission
from metasched.support.data_classes import dataclass
from metasched.support.messages import listing


@dataclass(frozen=True)
class Constraint:
    """A precondition over free tile variables: rows where `cond` is false are not in the space."""

    cond: Expr
    reason: str


@dataclass
class Context:
    """What primitives see of a schedule, and change.

    Attributes:
        func: the program; primitives replace it.
        taken: every name ever used, so names stay unique along a whole trace; by default those of `func`.
        free: the free tile variables, empty when all decisions are concrete.
        constraints: what rows have to meet, so far.
        allowed: what results may differ by.
        held_to_allowed: whether steps that need more are refused; those that a person wrote are not: that is consent.

    """

    func: Func
    taken: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    constraints: list[Constraint] = field(default_factory=list)
    allowed: Allowed = BY_DEFAULT
    held_to_allowed: bool = False

    def __post_init__(self) -> None:
        if not self.taken:
            self.taken = query.names(self.func)

    def require(self, cond: Expr | bool, error: ScheduleError) -> None:
        """Raise `error` unless `cond` holds; over free tile variables, keep it as a constraint.

        `cond` must not depend on loop variables; `require_everywhere` is for those.
        """
        if isinstance(cond, bool):
            if not cond:
                raise error
            return
        used = free_vars(cond)
        known = _prove_for_sizes(cond, used & self.free)
        if known is True:
            return
        if known is False or not self.free or not used <= self.free:
            raise error
        constraint = Constraint(simplify(cond), error.reason)
        if constraint not in self.constraints:
            self.constraints.append(constraint)

    def require_everywhere(self, cond: Expr, loops: tuple[For, ...], error: ScheduleError) -> None:
        """As `require`, for a condition that must hold for all values of the given loops' variables."""
        ranges = query.ranges(loops)
        if prove(cond, ranges):
            return
        if not (isinstance(cond, Binary) and cond.op in _WORST):
            raise error
        try:
            difference = bounds(Binary(BinOp.SUB, cond.a, cond.b), ranges)
        except NotAffine:
            raise error from None
        worst = difference.hi if _WORST[cond.op] else difference.lo
        self.require(Binary(cond.op, worst, Const(0)), error)

    def require_allowed(self, op: str, permission: Permission, block: str | None) -> None:
        """Raise ScheduleError for a step of a rule that lets results differ in a way that the caller does not allow."""
        where = None if block is None else self.block(op, block)
        if self.held_to_allowed and not self.allowed.in_block(permission, where):
            name = permission.value
            raise ScheduleError(
                op,
                f'"{name}" lets results differ, and is not allowed',
                () if block is None else (block,),
                f'a rule asks first: sch.allows("{name}"); callers allow it by allow={{"{name}"}}, or --allow {name}',
            )

    def fresh(self, name: str) -> str:
        """An unused name, `name` itself if it was never used. The result is marked as used."""
        new = query.fresh_name(name, self.taken)
        self.taken.add(new)
        return new

    def loop(self, op: str, var: str) -> For:
        """The loop of that name; ScheduleError when it is gone."""
        try:
            return query.find_loop(self.func, var)
        except KeyError:
            raise ScheduleError(
                op,
                f"loop `{var}` no longer exists",
                hint="an earlier step split, fused or moved it; use the handles that step returned, "
                "or get_loops(block) again",
            ) from None

    def block(self, op: str, name: str) -> Block:
        """The block of that name; ScheduleError when it is gone."""
        try:
            return query.find_block(self.func, name)
        except KeyError:
            known = listing(b.name for b in query.blocks(self.func))
            raise ScheduleError(
                op, f"there is no block `{name}`", hint=f"the program's blocks now are {known}"
            ) from None

    def scratch(self) -> Context:
        """A copy to try a step on; changes to it do not affect this one."""
        state = set(self.taken), set(self.free), list(self.constraints)
        return Context(self.func, *state, self.allowed, self.held_to_allowed)


@lru_cache(maxsize=1 << 12)
def _prove_for_sizes(cond: Expr, free: frozenset[str]) -> bool | None:
    """Whether a condition holds where `free` variables are at least 1. Structures of a space ask the same again."""
    return prove(simplify(substitute(cond, {name: Var(name) + 1 for name in free})), {})


# Whether the worst case of `a op b` is where a - b is largest.
_WORST = {BinOp.LT: True, BinOp.LE: True, BinOp.GT: False, BinOp.GE: False}

Attempt = Callable[[Context], object]


def is_legal(ctx: Context, attempt: Attempt) -> bool:
    """Whether a step would be legal here."""
    try:
        attempt(ctx.scratch())
    except ScheduleError:
        return False
    return True
