"""Executes and records the instructions that transform a program.

Recording and replaying are one interpreter: a method call makes an `Instruction`, and executing an instruction is
the same whether it was just made or read from a file. The handler decides the random variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from types import MethodType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from metasched.errors import ScheduleError
from metasched.ir import query
from metasched.ir.highlight import html_text, show
from metasched.ir.integers.affine import const
from metasched.ir.nodes import Func, Var
from metasched.ir.printer import print_func
from metasched.ir.program import Program, require_program
from metasched.lang.instructions import Decision, Instruction, Ref, Value
from metasched.permissions import Allow, Allowed, Permission
from metasched.schedule.analysis import BlockInfo, describe_block
from metasched.schedule.arguments import INTLIKE, LOOPLIKE, argument_error, bind, is_default, is_literal_of, plain
from metasched.schedule.context import Context
from metasched.schedule.distributions.base import Distribution
from metasched.schedule.handlers import (
    DrawFromPrior,
    FixedDecisions,
    Free,
    Handler,
    RefuseStructure,
    Repair,
    Site,
    Symbolic,
    UndoableDecisions,
)
from metasched.schedule.index_maps import with_maps_as_text
from metasched.schedule.kinds import INLINE, ROOT, ArgumentKind
from metasched.schedule.methods import PrimitiveMethods
from metasched.schedule.primitive import Declaration, Param, registry
from metasched.schedule.primitives.choose import OP as CHOOSE
from metasched.schedule.resolve import Env, resolved_arguments
from metasched.schedule.rewrite.iterations import require_countable
from metasched.schedule.rewrite.tensorize_safe import require_tensorize_safe
from metasched.schedule.rewrite.vector_sums import require_sums_apart
from metasched.schedule.sites import NO_OPTIONS, Open, SiteOptions, SiteRecord, require_support
from metasched.schedule.step_memo import StepMemo
from metasched.schedule.tensor import Mismatch
from metasched.schedule.tensor import intrinsics as known_intrinsics
from metasched.schedule.tensor_fit import TensorFit, fits_of
from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV, require_handle, require_steps
from metasched.schedule.versions import current_form
from metasched.support.messages import counted, did_you_mean, with_hint
from metasched.target import Target, require_target

T = TypeVar("T")


class Interpreter(PrimitiveMethods):
    """Runs instructions and records them; `handler` decides random variables. `Schedule` adds the trace.

    Methods raise ScheduleError when a step would not be legal. Whatever ends one, Ctrl-C as well, the state is then
    unchanged.
    """

    def __init__(
        self,
        program: Program,
        target: Target | None = None,
        *,
        seed: int = 0,
        handler: Handler | None = None,
        allow: Allow = None,
        memo: StepMemo | None = None,
    ) -> None:
        require_program(program)
        if target is not None:
            require_target(target, "a seed is given as `seed=`")
        self.program = program
        self._target = target
        self.handler: Handler = handler if handler is not None else DrawFromPrior(seed)
        self._memo = memo if memo is not None else StepMemo()
        self._ctx = Context(program.func, allowed=Allowed.of(allow))
        self._env = Env()
        self._instructions: list[Instruction] = []
        self._sites: list[SiteRecord] = []
        self._path: tuple[str, ...] = ()
        self._addresses: set[str] = set()
        self._facts: dict[str, dict[type, Any]] = {}
        self.repairs: list[Repair] = []
        # What its handles carry, and those of its copies.
        self._owner = object()

    # --- what it is now

    @property
    def target(self) -> Target:
        """The target: by default this machine, detected at the first use.

        Modules may use it, but no instruction does, so a trace means the same for any target.
        """
        if self._target is None:
            self._target = Target.detect()
        return self._target

    @property
    def func(self) -> Func:
        """The current program."""
        return self._ctx.func

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The recorded instructions, in order."""
        return tuple(self._instructions)

    @property
    def context(self) -> Context:
        """The interpreter's state, for the space generator: free variables and constraints."""
        return self._ctx

    @property
    def sites(self) -> tuple[SiteRecord, ...]:
        """The random variables met, in order."""
        return tuple(self._sites)

    def __str__(self) -> str:
        return print_func(self.func)

    def show(self) -> None:
        """Print the scheduled program; a terminal gets colour, unless NO_COLOR is set."""
        show(str(self))

    def __repr__(self) -> str:
        return f"<schedule of {self.program.key}: {counted(len(self._instructions), 'instruction')}>"

    def _repr_html_(self) -> str:
        return html_text(str(self))

    def block_names(self) -> tuple[str, ...]:
        """The program's blocks now, in program order."""
        return tuple(b.name for b in query.blocks(self.func))

    def describe(self, block: BlockRV) -> BlockInfo:
        """The current properties of a block; not recorded in the trace."""
        return describe_block(self.func, self._ctx.block("describe", self.name_of(block)).name)

    def tensor_fits(self, block: BlockRV, *intrinsics: str) -> tuple[TensorFit, ...]:
        """The ways to compute a block with one of these tensor intrinsics, the most promising first; not recorded.

        Raises ScheduleError, with the reason, where there is none, and for an unknown intrinsic.
        """
        unknown = [name for name in intrinsics if name not in known_intrinsics()]
        if unknown:
            hint = f"there are {', '.join(known_intrinsics())}"
            raise ScheduleError("tensor_fits", f'there is no intrinsic "{unknown[0]}"', hint=hint)
        name = self.name_of(block)
        found = self._ctx.block("tensor_fits", name)
        try:
            return fits_of(self.func, found, intrinsics)
        except Mismatch as error:
            raise ScheduleError("tensor_fits", str(error), (name,)) from None

    # --- what results may differ by

    def allows(self, permission: str, block: BlockRV | None = None) -> bool:
        """Whether the caller allows results to differ by something, `"fastmath"`, in a block or else in all of them.

        A rule asks before it takes a step that lets them. Raises MetaschedError for an unknown name.
        """
        where = None if block is None else query.find_block(self.func, self.name_of(block))
        return self._ctx.allowed.in_block(Permission.named(permission), where)

    def hold_to_allowed(self) -> None:
        """From now on refuse steps that let results differ in a way that is not allowed.

        A person who writes such a step consents to it; whoever runs a rule does so by `allow`.
        """
        self._ctx.held_to_allowed = True

    # --- facts exchanged between rules

    def add_fact(self, block: BlockRV, fact: object) -> None:
        """Attach a typed fact to a block for later rules. It is not recorded in the trace."""
        name = self._ctx.block("add_fact", self.name_of(block)).name
        self._facts.setdefault(name, {})[type(fact)] = fact

    def facts(self, block: BlockRV, kind: type[T]) -> T | None:
        """The fact of this type attached to a block, or None."""
        return self._facts.get(self.name_of(block), {}).get(kind)

    def name_of(self, handle: BlockRV | LoopRV) -> str:
        """The current name in the program of a handle's block or loop."""
        self._require_own("handle", handle)
        table = self._env.blocks if isinstance(handle, BlockRV) else self._env.loops
        if handle.label not in table:
            raise ScheduleError("handle", f"`{handle.label}` is not a handle of this schedule")
        return table[handle.label]

    # --- trying

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """A context in which an error undoes all steps; it propagates to the caller.

        The lines of choices to branch on stay in the trace, as which steps were tried depends on them.
        """
        before, tentative = self.fork(self.handler), UndoableDecisions(self.handler)
        self.handler = tentative
        try:
            yield
        except BaseException:
            self._undo(before)
            raise
        finally:
            self.handler = before.handler
        if tentative.missing is not None:
            raise tentative.missing

    def _undo(self, before: Self) -> None:
        """Restore the state `before`, and keep the lines of choices to branch on since."""
        chosen = [i for i in self._instructions[len(before._instructions) :] if registry()[i.op].branches]
        sites = {s.site.address: s for s in self._sites}
        self._ctx.func, self._ctx.taken, self._ctx.free = before._ctx.func, before._ctx.taken, before._ctx.free
        self._ctx.constraints = before._ctx.constraints
        self._env, self._facts = before._env, before._facts
        self._instructions, self._sites = before._instructions, before._sites
        for instruction in chosen:
            assert instruction.address is not None
            self._sites.append(replace(sites[instruction.address], line=len(self._instructions)))
            self._instructions.append(instruction)
            self._ctx.taken.update(instruction.outputs)

    def fork(self, handler: Handler) -> Self:
        """A copy whose random variables `handler` decides; changes to it do not affect this one."""
        # Much faster than `copy`, and spaces fork before each rule that they try on a block.
        other: Self = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.handler, other.repairs = handler, []
        other._ctx = self._ctx.scratch()
        other._env = Env(dict(self._env.blocks), dict(self._env.loops), dict(self._env.ints))
        other._instructions, other._sites = list(self._instructions), list(self._sites)
        other._addresses = set(self._addresses)
        other._facts = {name: dict(facts) for name, facts in self._facts.items()}
        return other

    def trial(self) -> Self:
        """A copy to try steps on, with tile sizes left open: whether a step is legal for some sizes."""
        return self.fork(Symbolic(RefuseStructure()))

    def refusal(self, steps: Callable[[Self], object]) -> str | None:
        """Why `steps` would not be legal now; None when they would be, for some tile sizes at least.

        They run on a copy, and this schedule is unchanged: `sch.refusal(lambda s: s.compute_inline(block))` runs the
        primitive's own checks. A random number in them is left open. Raises MetaschedError for a choice of structure in
        them.
        """
        require_steps("refusal", steps)
        try:
            steps(self.trial())
        except ScheduleError as error:
            return error.reason
        return None

    # --- scopes and addresses

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Addresses of random variables inside start with `name/`."""
        outer = self._path
        self._path = (*outer, name)
        try:
            yield
        finally:
            self._path = outer

    def _default_address(self, name: str) -> str:
        """The path of scopes and a name, numbered when it is not the first."""
        base = "/".join((*self._path, name))
        number, address = 1, base
        while address in self._addresses:
            number += 1
            address = f"{base}#{number}"
        return address

    # --- recording

    def __dir__(self) -> list[str]:
        """Include the primitives, for completion."""
        return sorted({*super().__dir__(), *registry()})

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            declarations = registry()
            if name not in declarations:
                raise AttributeError(with_hint(f"there is no primitive `{name}`", did_you_mean(name, declarations)))
            method = _method_of(name)
            # From now on a method as any other: looking for one here takes as long as a short step.
            setattr(PrimitiveMethods, name, method)
            return MethodType(method, self)

    def choose(self, name: str, options: Sequence[T] = (), **settings: Any) -> T:
        """A structural decision: one of `options` (strings, numbers or booleans), as a plain value.

        `name` gives its address, unless `address` gives the whole of it. Python may branch on the result: each option
        makes another sketch. `decision` fixes the option, whatever the handler.
        """
        chosen: T = self._record_named(registry()[CHOOSE], (name, options), settings)
        return chosen

    def _record_named(self, declaration: Declaration, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record a sampler that is given a name and a list of its arguments."""
        op, form = declaration.name, f"{declaration.name}(name, options)"
        if len(args) != 2:
            raise ScheduleError(op, "it takes a name and a list of options", hint=form)
        name, options = args
        if not isinstance(name, str):
            raise ScheduleError(op, f"its name is {name!r}", hint=f"name the decision first: {form}")
        if not isinstance(options, list | tuple | range):
            raise ScheduleError(op, f'the options of "{name}" are {options!r}', hint="give a list of them")
        if not options:
            raise ScheduleError(op, f'"{name}" has no options', hint="give at least one")
        unknown = kwargs.keys() - {"address", "decision", "labels"}
        if unknown:
            raise ScheduleError(op, f"unexpected argument `{min(unknown)}`", hint=form)
        how = SiteOptions.of(declaration, {**kwargs, "name": name})
        instruction = Instruction(
            op,
            tuple(map(plain, options)),
            (),
            how.labels,
            random=True,
            address=how.address,
            version=declaration.version,
        )
        return self._execute(declaration, instruction, how, bind(declaration, instruction.args, {}))

    def _record(self, declaration: Declaration, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        options = SiteOptions.of(declaration, kwargs)
        bound = with_maps_as_text(declaration, bind(declaration, args, kwargs))
        positional: list[Value] = []
        keywords: list[tuple[str, Value]] = []
        in_trace: list[tuple[Param, Any]] = []
        for param, value in bound:
            written = self._trace_value(declaration, param, value)
            in_trace.append((param, written))
            if param.variadic:
                assert isinstance(written, tuple)
                positional.extend(written)
            elif param.keyword:
                if not is_default(param, written):
                    keywords.append((param.name, written))
            else:
                positional.append(written)
        instruction = Instruction(
            declaration.name,
            tuple(positional),
            tuple(keywords),
            options.labels,
            random=declaration.random,
            address=options.address,
            version=declaration.version,
        )
        return self._execute(declaration, instruction, options, in_trace)

    def _trace_value(self, declaration: Declaration, param: Param, value: Any) -> Value:
        """An argument as it goes into the trace."""
        if param.many:
            if not isinstance(value, list | tuple | range):
                raise argument_error(declaration, param, value)
            return tuple(self._trace_item(declaration, param, plain(item)) for item in value)
        return self._trace_item(declaration, param, plain(value))

    def _trace_item(self, declaration: Declaration, param: Param, value: Any) -> Value:
        kind = param.kind
        if isinstance(value, BlockRV | LoopRV):
            self._require_own(declaration.name, value)
        if isinstance(value, BlockRV) and kind in (ArgumentKind.BLOCK, ArgumentKind.TARGET):
            return Ref(value.label)
        if isinstance(value, LoopRV) and (kind in LOOPLIKE or kind is ArgumentKind.TARGET):
            return Ref(value.label)
        if kind is ArgumentKind.LOCATION and isinstance(value, str) and value in (ROOT, INLINE):
            return Ref(value)
        if kind in INTLIKE and isinstance(value, Int):
            return Ref(value.expr.name) if isinstance(value.expr, Var) else value.expr
        if is_literal_of(kind, value):
            return value  # type: ignore[no-any-return]
        raise argument_error(declaration, param, value)

    def _require_own(self, op: str, handle: BlockRV | LoopRV) -> None:
        """Require handles of this schedule: another may have other loops and blocks under the same labels."""
        require_handle(op, handle)
        if handle.owner is not None and handle.owner is not self._owner:
            kind = "block" if isinstance(handle, BlockRV) else "loop"
            raise ScheduleError(
                op,
                f"`{handle.label}` is a {kind} of another schedule",
                hint="a handle is of the schedule that returned it, and of copies of that",
            )

    # --- executing

    def execute(self, instruction: Instruction) -> None:
        """Run one instruction of a trace; its outputs get the labels that it names."""
        declaration, current = current_form(instruction)
        bound = bind(declaration, current.args, dict(current.kwargs))
        self._execute(declaration, current, NO_OPTIONS, bound)

    def _execute(
        self,
        declaration: Declaration,
        instruction: Instruction,
        options: SiteOptions,
        bound: Sequence[tuple[Param, Any]],
    ) -> Any:
        """Run one instruction, whose arguments are `bound`. On an error, the schedule is unchanged."""
        values = resolved_arguments(declaration, bound, self._env)
        before, taken, constraints = self._ctx.func, self._ctx.taken, self._ctx.constraints
        recorded, sampled = len(self._instructions), len(self._sites)
        if not declaration.looks:
            taken, constraints = set(taken), list(constraints)

        def step() -> Any:
            if declaration.permission is not None:
                self._ctx.require_allowed(declaration.name, declaration.permission, self._first_block(instruction))
            found = declaration.run(self._ctx, *values[0], **values[1])
            if self._ctx.func is not before:
                require_tensorize_safe(declaration.name, before, self._ctx.func)
                require_sums_apart(self._ctx, declaration.name)
                require_countable(declaration.name, self._ctx.func)
            return found

        try:
            result = step() if declaration.looks else self._memo.run(step, declaration, self._ctx, values)
            if declaration.random:
                return self._sample(declaration, instruction, options, result)
            return self._bind_results(declaration, instruction, result)
        except BaseException as error:
            self._ctx.func, self._ctx.taken, self._ctx.constraints = before, taken, constraints
            self._addresses -= {record.site.address for record in self._sites[sampled:]}
            del self._instructions[recorded:], self._sites[sampled:]
            if isinstance(error, ScheduleError):
                marks = error.locations or self._target_names(instruction)
                if marks:
                    error.draw_with(lambda: print_func(before, marks))
            raise

    def _first_block(self, instruction: Instruction) -> str | None:
        refs = (arg.name for arg in instruction.args if isinstance(arg, Ref) and arg.name in self._env.blocks)
        return next((self._env.blocks[name] for name in refs), None)

    def _target_names(self, instruction: Instruction) -> tuple[str, ...]:
        """The loops and blocks that an instruction is about."""
        refs = [arg.name for arg in instruction.args if isinstance(arg, Ref)]
        found = (self._env.loops.get(name) or self._env.blocks.get(name) for name in refs)
        return tuple(name for name in found if name is not None)

    # --- results

    def _bind_results(self, declaration: Declaration, instruction: Instruction, result: Any) -> Any:
        if declaration.result is ArgumentKind.NONE:
            names: list[str] = []
        else:
            names = list(result) if declaration.many_results else [result]
        table = self._env.blocks if declaration.result is ArgumentKind.BLOCK else self._env.loops
        labels = list(instruction.outputs) or self._labels(names, table)
        if len(labels) != len(names):
            raise _wrong_count(declaration.name, f"{counted(len(names), 'result')} here", labels)
        handle: type[BlockRV] | type[LoopRV] = BlockRV if declaration.result is ArgumentKind.BLOCK else LoopRV
        for label, target in zip(labels, names, strict=True):
            table[label] = target
        self._ctx.taken.update(labels)
        self._instructions.append(instruction.with_outputs(tuple(labels)))
        handles = [handle(label, self._owner) for label in labels]
        if declaration.result is ArgumentKind.NONE:
            return None
        return handles if declaration.many_results else handles[0]

    def _labels(self, names: list[str], table: Mapping[str, str]) -> list[str]:
        """Labels for handles: the names in the program, made into unused identifiers."""
        new: dict[str, str] = {}
        labels = []
        for name in names:
            label = name.replace(".", "_")
            while new.get(label, table.get(label, name)) != name:
                label += "_"
            new[label] = name
            labels.append(label)
        return labels

    def _sample(
        self, declaration: Declaration, instruction: Instruction, options: SiteOptions, dist: Distribution
    ) -> Any:
        name = options.name or self._default_name(declaration, instruction)
        address = instruction.address or self._default_address(name)
        if address in self._addresses:
            raise ScheduleError(
                declaration.name,
                f'the address "{address}" is that of an earlier random variable',
                hint="each has an address of its own",
            )
        site = Site(address, declaration.name, dist)
        handler = self.handler
        if not isinstance(options.decision, Open):
            handler = FixedDecisions({address: options.decision}, handler)
        decision = handler.decide(site)
        if not isinstance(decision, Free):
            require_support(self._ctx, site, decision)
        recorded = replace(instruction, address=address, decision=None if isinstance(decision, Free) else decision)
        if dist.structural:
            assert not isinstance(decision, Free)
            return self._take_structural(recorded, site, decision, options.name or address.rsplit("/", 1)[-1])
        return self._take_numeric(recorded, site, decision)

    def _default_name(self, declaration: Declaration, instruction: Instruction) -> str:
        """The default name of a random variable: the name of the block or loop that it samples."""
        for arg in instruction.args:
            if isinstance(arg, Ref):
                return self._env.loops.get(arg.name) or self._env.blocks.get(arg.name) or arg.name
        return declaration.name.removeprefix("sample_")

    def _take_structural(self, instruction: Instruction, site: Site, decision: Decision, name: str) -> Any:
        (value,) = site.dist.outputs(decision)
        labels = instruction.outputs or (self._ctx.fresh(_identifier(name)),)
        if len(labels) != 1:
            raise _wrong_count(site.op, "one result", labels)
        self._log(instruction.with_outputs(labels), site, labels, decision)
        if isinstance(decision, Ref):
            self._env.loops[labels[0]] = value
            return LocationRV(labels[0], self._owner)
        return value

    def _take_numeric(self, instruction: Instruction, site: Site, decision: Decision | Free) -> Any:
        dist: Any = site.dist
        count = len(dist.outputs(decision)) if not isinstance(decision, Free) else dist.width + _count_derived(dist)
        labels = instruction.outputs or tuple(self._numeric_labels(count))
        if len(labels) != count:
            raise _wrong_count(site.op, f"{count} integers", labels)
        if isinstance(decision, Free):
            columns = dist.column_names(labels)
            self._ctx.free.update(columns)
            values = dist.free_outputs([Var(c) for c in columns])
        else:
            values = dist.outputs(decision)
        self._env.ints.update(zip(labels, values, strict=True))
        self._log(instruction.with_outputs(labels), site, labels, decision)
        ints = [Int(Var(label)) for label in labels]
        return ints if dist.gives_list else ints[0]

    def _numeric_labels(self, count: int) -> Iterator[str]:
        number = 0
        for _ in range(count):
            while f"t{number}" in self._ctx.taken:
                number += 1
            yield f"t{number}"
            number += 1

    def _log(self, instruction: Instruction, site: Site, labels: tuple[str, ...], decision: Decision | Free) -> None:
        self._ctx.taken.update(labels)
        self._sites.append(SiteRecord(len(self._instructions), site, labels, decision))
        self._addresses.add(site.address)
        self._instructions.append(instruction)


@cache
def _method_of(name: str) -> Callable[..., Any]:
    """The method that records a primitive."""
    declaration = registry()[name]

    def method(self: Interpreter, *args: Any, **kwargs: Any) -> Any:
        record = self._record_named if declaration.named else self._record
        return record(declaration, args, kwargs)

    method.__name__ = declaration.name
    method.__doc__ = f"{declaration.signature}\n\n{declaration.doc}"
    return method


def _wrong_count(op: str, given: str, labels: Sequence[str]) -> ScheduleError:
    return ScheduleError(
        op,
        f"it gives {given} and the trace names {len(labels)}",
        hint="`labels` has a name for each; a trace that is replayed was made for a program of another structure",
    )


def _count_derived(dist: Any) -> int:
    """How many outputs are computed from the columns, such as a tile's outer factor."""
    return len(dist.free_outputs([const(1)] * dist.width)) - int(dist.width)


def _identifier(name: str) -> str:
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return text if text[:1].isalpha() else f"x{text}"
