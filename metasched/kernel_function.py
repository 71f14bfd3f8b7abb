"""The shortest way in: a kernel from one line of index notation, called with arrays.

f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
C = f(A, B)           # compiled for these shapes and element types at the first call: a guess, or what was tuned
f.tune(A, B)          # measures; every later process finds the result
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from metasched import api
from metasched.cache_folder import CACHE
from metasched.database.database_registry import scheme_of
from metasched.database.user_database import kernels_database, make_folder
from metasched.errors import BuildError, CacheWarning, KernelError, MetaschedError, NoRecord, callers_level
from metasched.ir.notebook import table
from metasched.ir.program import Program
from metasched.lang.call_arguments import order_arguments
from metasched.lang.shorthand import Shorthand, read_shorthand
from metasched.measure.checking.inputs import Inputs
from metasched.permissions import Allow, Allowed
from metasched.report.progress_view import Shown
from metasched.runtime.call_argument import CallArgument, inspect_argument
from metasched.runtime.foreign import Library, as_numpy
from metasched.runtime.kernel import Kernel, Origin, compiled_again
from metasched.runtime.recipe import Recipe
from metasched.search.report import TuningReport
from metasched.space.registry import RuleSpec
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted, listing, with_hint
from metasched.support.single_flight import SingleFlight
from metasched.target import Target

_QUIET_HINT = "to guess without this, filter CacheWarning"
_ARRAY = np.ndarray
_OPTIONS = ("out", "trials", "seed", "budget", "patience", "inputs", "rules", "progress")
# Options of `ms.tune` that `tune` does not take, with what has them.
_OPTIONS_ELSEWHERE = {
    **dict.fromkeys(("db", "target", "allow"), "ms.kernel(text, {}=...)"),
    **dict.fromkeys(("space", "strategy", "model", "runner", "knowledge"), "ms.tune(f.program(...), {}=...)"),
    "data": "tune(..., inputs=...)",
}


def kernel(
    text: str,
    *,
    db: str | None = None,
    rules: RuleSpec = None,
    target: Target | None = None,
    allow: Allow = None,
) -> KernelFunction:
    """A function of arrays from stages in index notation, separated by newlines or `;`; the last one is its result.

        f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
        C = f(A, B)

    Its arguments are the names that no stage computes, in the order in which the right-hand sides first mention them:
    arrays where they are indexed, numbers where they are not. Shapes and element types are those of the arguments; a
    Python number takes the type of what it is combined with.

    Args:
        text: the stages.
        db: where tuned schedules are kept and looked up, by URL; by default a database of this user's, `kernels.db` in
            the folder that METASCHED_CACHE names, else in the platform's folder for caches. (`ms.tune` and the command
            line have another, `metasched.db` in the working folder.)
        rules: the rules that make the space, of a guess and of `tune`; by default "cpu".
        target: the CPU to compile for; by default this one.
        allow: what results may differ by, as of `ms.tune`.

    Where that database cannot be used, the function warns (`CacheWarning`) and guesses.

    Raises LanguageError for a text that is wrong, DatabaseError for a `db` that is no URL of a database.
    """
    if db is not None:
        scheme_of(db)
    return KernelFunction(read_shorthand(text), db=db, rules=rules, target=target, allow=allow)


@dataclass(frozen=True)
class _Compiled:
    """A kernel, and why it is a guess although something may have been tuned."""

    kernel: Kernel
    obstacle: str = ""


class KernelFunction:
    """What `ms.kernel` makes: a function that has a compiled kernel for each combination of shapes and types.

        f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])")
        C = f(A, B)  # by position or by name; `out=C` writes into an array that is given
        f.tune(A, B, trials=64)  # for these shapes and types
        f.kernel_for(A, B)  # the kernel itself

    The first call with such a combination compiles, while other threads that need the same one wait; later calls run at
    once, side by side.
    """

    def __init__(
        self,
        shorthand: Shorthand,
        *,
        db: str | None,
        rules: RuleSpec,
        target: Target | None,
        allow: Allow = None,
    ) -> None:
        self._shorthand = shorthand
        self._db = db
        self._rules = rules
        self._target = target
        self._allowed = Allowed.of(allow)
        self._kernels: dict[tuple[Any, ...], Kernel] = {}
        self._only: Kernel | None = None
        self._compiling: SingleFlight[_Compiled] = SingleFlight()
        self._warned: set[str] = set()
        self._recipes: dict[tuple[Any, ...], Recipe] = {}  # what came with a pickled function
        self._copied = 0

    @property
    def text(self) -> str:
        return self._shorthand.text

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the arguments, in calling order."""
        return self._shorthand.arguments

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """The result, a new array, or `out` written. Arguments are given in their order, or by name.

        Arrays of other libraries in the CPU's memory, such as PyTorch's tensors, are taken as they are, and the result
        is one of theirs. A transposed array has a kernel of its own, which reads it where it lies; any other that is
        not contiguous is copied first, and `out` is copied to: one pass over the array more.

        Raises KernelError for arguments that do not go together.
        """
        if named:
            inputs = self._order_inputs(inputs, named)
        only = self._only
        if only is not None:
            try:
                return only(*inputs, out=out)
            except KernelError:  # they are for another kernel, or strided, or wrong: looking it up tells
                pass
        found = self._kernels.get(_key(inputs))
        if found is not None and found is not only:
            try:
                return found(*inputs, out=out)
            except KernelError:
                pass
        return self._run(inputs, out)

    def _run(self, inputs: tuple[Any, ...], out: Any) -> Any:
        """The call with every argument looked at, and copied where it has to be."""
        taken = self._take_arguments(inputs)
        kernel = self._kernel(taken)
        values = [argument.contiguous_value() for argument in taken]
        self._copied += sum(argument.bytes_to_copy for argument in taken)
        if out is not None:
            return self._write_out(kernel, values, out)
        result = kernel(*values)
        library = Library.find(value for name, value in zip(self.arguments, inputs, strict=True) if self._indexes(name))
        if library is None:
            return result
        return tuple(map(library.array, result)) if isinstance(result, tuple) else library.array(result)

    def _write_out(self, kernel: Kernel, values: list[Any], out: Any) -> Any:
        """`out`, written by the kernel, or where it is strided by way of a new array."""
        given = out if isinstance(out, tuple) else (out,)
        arrays = [as_numpy("out", array) for array in given]
        made = [p for p in kernel.compiled.parameters if p.is_output]
        fits = len(arrays) == len(made) and all(
            isinstance(a, np.ndarray) and (a.shape, a.dtype) == (p.shape, p.dtype.numpy) and a.flags.writeable
            for a, p in zip(arrays, made, strict=True)
        )
        if not fits or all(array.flags.c_contiguous and array.flags.aligned for array in arrays):
            return kernel(*values, out=out)
        results = kernel(*values)
        for array, result in zip(arrays, results if isinstance(results, tuple) else (results,), strict=True):
            np.copyto(array, result)
            self._copied += result.nbytes
        return out

    def kernel_for(self, /, *inputs: Any, **named: Any) -> Kernel:
        """The kernel for arguments such as these, which are not run on: it has the trace, and a form for Numba.

        It is the best one measured, of this process's `tune` or of the database, else the best guess. That for a
        transposed array takes the array as it lies in memory, `A.T` where this is given `A`.
        """
        return self._kernel(self._take_arguments(self._order_inputs(inputs, named)))

    def program(self, /, *inputs: Any, **named: Any) -> Program:
        """The program for arguments such as these. Raises KernelError or LanguageError where there is none."""
        return self._program(self._take_arguments(self._order_inputs(inputs, named)))

    def tune(
        self,
        /,
        *arguments: Any,
        trials: int | None = None,
        seed: int = 0,
        budget: float | None = None,
        patience: int | None = None,
        inputs: Inputs | None = None,
        rules: RuleSpec = None,
        progress: Shown = None,
        **named: Any,
    ) -> Kernel[TuningReport]:
        """Search for a fast schedule for arguments such as these, and use it from now on, here and in later processes.

        Args:
            arguments: those of the shapes and types to tune for.
            trials: measurements to have in the database in the end; the same call again is instant. By default 64, or
                as many as there is time for where a budget is given.
            seed: with the recorded times, decides every candidate.
            budget: seconds that it may take in all.
            patience: end after so many trials without one that is faster by more than noise.
            inputs: what to measure on, by argument, as of `ms.tune`; by default random numbers.
            rules: the rules that make the space; by default those of this function.
            progress: how to show where the run stands, as of `ms.tune`: by default a line in a terminal or a notebook;
                False for nothing, or a function to be called after each measurement.
            named: arguments given by name; those that are called as one of the above are given by their place.

        Raises as `ms.tune` does.
        """
        self._refuse_options_of_others(named)
        taken = self._take_arguments(self._order_inputs(arguments, named))
        program = self._program(taken)
        tuned = api.tune(
            program,
            trials=trials,
            budget=budget,
            patience=patience,
            db=self._database_to_write(),
            rules=self._rules if rules is None else rules,
            seed=seed,
            target=self._target,
            allow=self._allowed,
            inputs=inputs,
            progress=progress,
        )
        self._keep_kernel(_key_of(taken), tuned)
        return tuned

    def __getstate__(self) -> dict[str, Any]:
        """The text and the options, and of what was compiled programs and traces."""
        recipes = {**self._recipes, **{key: Recipe.from_kernel(kernel) for key, kernel in self._kernels.items()}}
        options = {"db": self._db, "rules": self._rules, "target": self._target, "allow": self._allowed}
        return {"text": self.text, "options": options, "recipes": recipes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(read_shorthand(state["text"]), **state["options"])  # type: ignore[misc]
        self._recipes = state["recipes"]

    def __copy__(self) -> KernelFunction:
        return self  # as a copy of any function

    def __deepcopy__(self, _memo: object) -> KernelFunction:
        return self

    def __repr__(self) -> str:
        stages = "; ".join(line.strip() for line in self.text.strip().splitlines())
        count = len(self._kernels)
        shapes = "no shapes yet" if not count else f"{counted(count, 'combination')} of shapes"
        tuned = sum(kernel.origin is Origin.MEASURED for kernel in self._kernels.values())
        shapes += f" ({tuned} tuned, {count - tuned} guessed)" if count else ""
        copied = f", {self._copied} bytes copied" if self._copied else ""
        return f"<kernel {stages!r} of ({', '.join(self.arguments)}), compiled for {shapes}{copied}>"

    def _repr_html_(self) -> str:
        rows = [
            (", ".join(f"{name}: {type_}" for name, type_ in kernel.program.arguments()), kernel.origin.label)
            for kernel in self._kernels.values()
        ]
        return table(self.text.strip(), [("arguments", "schedule"), *rows])

    # --- helpers

    def _order_inputs(self, inputs: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        return order_arguments("the kernel", self.arguments, inputs, named, _OPTIONS) if named else inputs

    def _refuse_options_of_others(self, named: dict[str, Any]) -> None:
        """Raises KernelError for an option of `ms.tune` that `tune` does not take, unless an argument is called so."""
        for name, where in _OPTIONS_ELSEWHERE.items():
            if name in named and name not in self.arguments:
                raise KernelError(f"`tune` of a kernel has no option `{name}`", hint=f"`{where.format(name)}`")

    def _keep_kernel(self, key: tuple[Any, ...], kernel: Kernel) -> Kernel:
        """Use a kernel from now on.

        While there is one only it is called without looking it up, as it checks its arguments anyway. Numbers have to
        be looked at: a kernel takes those of any type.
        """
        self._kernels[key] = kernel
        numbers = len(self._shorthand.tensors) < len(self._shorthand.arguments)
        looked_up = len(self._kernels) > 1 or numbers or isinstance(next(iter(key), None), Reordered)
        self._only = None if looked_up else kernel
        return kernel

    def _database(self) -> str:
        return kernels_database() if self._db is None else self._db

    def _database_to_write(self) -> str:
        url = self._database()
        if self._db is None:
            make_folder(url)
        return url

    def _compile_kernel(self, key: tuple[Any, ...], program: Program) -> _Compiled:
        """The best kernel measured, else a guess; also where there is a database that cannot be used."""
        if key in self._kernels:
            return _Compiled(self._kernels[key])
        recipe = self._recipes.get(key)
        if recipe is not None and recipe.missing_features():
            recipe = None  # another machine's
        obstacle, where = "", ""
        if recipe is None or recipe.origin is Origin.GUESS:
            try:
                url = self._database()
                where = f" ({url})"
                return _Compiled(
                    self._keep_kernel(key, api.compile(program, db=url, target=self._target, allow=self._allowed))
                )
            except NoRecord:
                pass
            except BuildError as error:  # this and the next are told to the user as warnings
                hint = f"`tune` measures anew; {_QUIET_HINT}"
                obstacle = with_hint(f"what was tuned cannot be compiled{where}: {error}", hint)
            except MetaschedError as error:
                hint = f"mend or remove what it names, set {CACHE} to another folder, or give `db=`; {_QUIET_HINT}"
                obstacle = with_hint(f"its database of tuned kernels cannot be used{where}: {error}", hint)
        if recipe is not None:
            return _Compiled(self._keep_kernel(key, compiled_again(recipe)), obstacle)
        guessed = api.compile(program, rules=self._rules, target=self._target, allow=self._allowed)
        return _Compiled(self._keep_kernel(key, guessed), obstacle)

    def _warn(self, obstacle: str) -> None:
        """Say why what may have been tuned is not used; each reason once."""
        if not obstacle or obstacle in self._warned:
            return
        self._warned.add(obstacle)
        warnings.warn(f"ms.kernel guesses, as {obstacle}", CacheWarning, stacklevel=callers_level())

    def _indexes(self, name: str) -> bool:
        return name in self._shorthand.tensors

    def _take_arguments(self, inputs: tuple[Any, ...]) -> tuple[CallArgument, ...]:
        names = self.arguments
        if len(inputs) != len(names):
            takes = f"{counted(len(names), 'argument')} ({listing(names)})"
            raise KernelError(f"the kernel takes {takes}, not {len(inputs)}", hint=_unbound_hint(self._shorthand))
        return tuple(inspect_argument(n, value, self._indexes(n)) for n, value in zip(names, inputs, strict=True))

    def _program(self, taken: tuple[CallArgument, ...]) -> Program:
        return self._shorthand.program({argument.name: argument.type for argument in taken})

    def _kernel(self, taken: tuple[CallArgument, ...]) -> Kernel:
        key = _key_of(taken)
        found = self._kernels.get(key)
        if found is None:
            program = self._program(taken)
            compiled = self._compiling.run(key, lambda: self._compile_kernel(key, program))
            found = compiled.kernel
            self._warn(compiled.obstacle)
        return found


def _unbound_hint(shorthand: Shorthand) -> str:
    """A hint for arguments that were most likely meant to be indices."""
    names = shorthand.subscripts
    if not names:
        return ""
    number = "is a number, as no stage has it as an index" if len(names) == 1 else "are numbers, no stages' indices"
    return f"{listing(names)} {number}; to sum over it, write `sum[{names[0]}](...)`"


def _key(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a compiled kernel depends on: shape and element type of an array, the type of a number."""
    key: list[Any] = []
    for value in inputs:
        if type(value) is _ARRAY or isinstance(value, _ARRAY):
            key.append(value.shape)
            key.append(value.dtype)
        else:
            key.append(type(value))
    return tuple(key)


def _key_of(taken: tuple[CallArgument, ...]) -> tuple[Any, ...]:
    """The key of the arguments as they lie in memory. Where their dimensions are in another order it differs from that
    of arrays which have this order.
    """
    key = _key(tuple(argument.value for argument in taken))
    orders = tuple(argument.order for argument in taken)
    return key if all(order is None for order in orders) else (Reordered(orders), *key)


@dataclass(frozen=True)
class Reordered:
    """The orders of the dimensions of a kernel's arguments, where some are not in their own."""

    orders: tuple[tuple[int, ...] | None, ...]
