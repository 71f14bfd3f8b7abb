"""What stands for an array while a function is traced.

It takes part in NumPy's functions by the protocols `__array_ufunc__` (NEP 13) and `__array_function__` (NEP 18).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from metasched.doors.jit.elementwise import apply_ufunc
from metasched.doors.jit.errors import TraceError
from metasched.doors.jit.indexing import MASK, MaskedPart, assign, subscript_array
from metasched.doors.jit.promotion import language_type, limit_of, resolve_types
from metasched.doors.jit.registry import call
from metasched.doors.jit.trace import ArrayTrace, TracedOperand
from metasched.doors.jit.ufunc_methods import call_ufunc_method
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.support.messages import listing

_CONTROL_FLOW = (
    "choose element by element with np.where(condition, x, y); what does not depend on data may branch: shapes, types, "
    "and arguments that are no arrays"
)
# Methods of arrays that are functions of NumPy, with the array as their first argument.
_METHODS = frozenset(
    {
        "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "cumprod", "cumsum", "diagonal",
        "dot", "max", "mean", "min", "prod", "ravel", "repeat", "round", "searchsorted", "squeeze", "std", "sum",
        "swapaxes", "take", "trace", "var",
    }
)  # fmt: skip


def _run_with_trace_error(work: Callable[[], Any]) -> Any:
    """Do some work; a TraceError with the user's line says what the language refuses."""
    try:
        return work()
    except Unsupported as error:
        raise TraceError(str(error)) from None


def _make_in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """An operator such as `a += b`, which writes into an array, and gives a number's name to another number."""

    def operator(self: TracedArray, other: Any) -> Any:
        return ufunc(self, other) if self.is_number else ufunc(self, other, out=(self,))

    return operator


class TracedArray(TracedOperand, np.lib.mixins.NDArrayOperatorsMixin):
    """An array of a known type and shape whose elements are not known yet."""

    __slots__ = ()
    __array_priority__ = 1000.0
    __hash__ = None  # type: ignore[assignment]

    # --- its type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.value.type.dtype.numpy)

    @property
    def ndim(self) -> int:
        return self.value.rank

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def is_number(self) -> bool:
        """Whether it has no dimensions and is no view: what NumPy's functions give there are numbers."""
        return self.view_of is None and not self.ndim

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    # --- NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _run_with_trace_error(lambda: self._ufunc(ufunc, method, inputs, kwargs))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        del types
        return _run_with_trace_error(lambda: self._function(function, args, kwargs))

    def _function(self, function: Any, args: Any, kwargs: Any) -> Any:
        found, out = call(self.own_trace, function, args, kwargs)
        made = self._wrap_results(found)
        return made if out is None else _overwrite(out, made)

    def _ufunc(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = kwargs.pop("out", None)
        if method != "__call__":
            made = self._wrap_results(call_ufunc_method(self.own_trace, ufunc, method, inputs, kwargs))
            return made if out is None else _write_out(out, made)
        where = kwargs.pop("where", True)
        made = self._call_ufunc(ufunc, inputs, kwargs)
        if where is not True:
            if out is None or out[0] is None:
                raise TraceError(f"np.{ufunc.__name__} is traced with `where` only where `out` has the other elements")
            made = np.where(where, made.astype(out[0].dtype), out[0])
        return made if out is None else _write_out(out, made)

    def _call_ufunc(self, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        dtype = kwargs.pop("dtype", None)
        if kwargs:
            raise TraceError(f"np.{ufunc.__name__} is traced without {listing(kwargs)}")
        if ufunc is np.divmod:
            return np.floor_divide(*inputs, dtype=dtype), np.remainder(*inputs, dtype=dtype)
        if ufunc is np.modf:
            x = inputs[0].astype(resolve_types(ufunc, (inputs[0].dtype,), dtype)[1].numpy)
            whole = np.trunc(x)
            return np.copysign(np.where(np.isinf(x), 0.0, np.subtract(x, whole)), x), whole
        if ufunc.__name__ in _PRODUCTS:
            return _PRODUCTS[ufunc.__name__](*inputs)
        return TracedArray(self.own_trace, apply_ufunc(self.own_trace, ufunc, inputs, dtype))

    def _wrap_results(self, made: Any) -> Any:
        if isinstance(made, GraphValue):
            return TracedArray(self.own_trace, made)
        if type(made) in (tuple, list):
            return type(made)(self._wrap_results(part) for part in made)
        return made

    __iadd__ = _make_in_place(np.add)
    __isub__ = _make_in_place(np.subtract)
    __imul__ = _make_in_place(np.multiply)
    __imatmul__ = _make_in_place(np.matmul)
    __itruediv__ = _make_in_place(np.true_divide)
    __ifloordiv__ = _make_in_place(np.floor_divide)
    __imod__ = _make_in_place(np.remainder)
    __ipow__ = _make_in_place(np.power)
    __ilshift__ = _make_in_place(np.left_shift)
    __irshift__ = _make_in_place(np.right_shift)
    __iand__ = _make_in_place(np.bitwise_and)
    __ixor__ = _make_in_place(np.bitwise_xor)
    __ior__ = _make_in_place(np.bitwise_or)

    # --- what needs elements

    def _needs_elements(self, what: str, hint: str) -> NoReturn:
        raise TraceError(f"{what} needs the elements of an array, which are not known while a function is traced", hint)

    def __bool__(self) -> NoReturn:  # noqa: PLE0304 -- it raises
        self._needs_elements("Python's control flow (if, while, and, or, not, assert)", _CONTROL_FLOW)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._needs_elements(
            "making a NumPy array of a traced one (np.array, np.asarray, or a function that begins with it)",
            "np.stack and np.concatenate put traced arrays together; what they are written into is made with "
            "np.zeros(shape, like=x), or np.zeros_like(x); a traced array needs no np.asarray",
        )

    def _number(self) -> Any:
        self._needs_elements(
            "a Python number", "keep it an array: np.sqrt for math.sqrt, x[i] with an array i for a number i"
        )

    __int__ = __float__ = __complex__ = __index__ = _number

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None or self.ndim:  # a whole number of Python's; of arrays NumPy has none
            self._needs_elements("Python's round", "np.round(x) keeps it an array")
        return np.round(self, digits)

    def item(self, *args: Any) -> Any:
        self._number()

    def tolist(self) -> Any:
        self._number()

    def __contains__(self, value: Any) -> bool:
        self._needs_elements("`in`", "np.any(x == value) is an array")

    # --- parts and forms of it

    def __getitem__(self, key: Any) -> Any:
        found = _run_with_trace_error(lambda: subscript_array(self, key))
        return MaskedElements(self.own_trace, found) if isinstance(found, MaskedPart) else self._wrap_results(found)

    def __setitem__(self, key: Any, value: Any) -> None:
        _run_with_trace_error(lambda: assign(self, key, value))

    def __iter__(self) -> Iterator[Any]:
        return (self[n] for n in range(len(self)))

    @property
    def T(self) -> Any:  # noqa: N802 -- NumPy's name
        return self.transpose()

    @property
    def mT(self) -> Any:  # noqa: N802 -- NumPy's name
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> Any:
        return self

    @property
    def imag(self) -> Any:
        return np.zeros_like(self)

    @property
    def flat(self) -> Any:
        return self.ravel()

    def transpose(self, *axes: Any) -> Any:
        given = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return np.transpose(self, given or None)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order)

    def flatten(self, order: Any = "C") -> Any:
        return np.ravel(self, order).copy()

    def fill(self, value: Any) -> None:
        self[...] = value

    def sort(self, axis: int = -1, kind: Any = None, order: None = None, *, stable: Any = None) -> None:
        """Sort the elements along an axis, in place."""
        self[...] = np.sort(self, axis)

    def astype(
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> Any:
        if not np.can_cast(self.dtype, dtype, casting):  # type: ignore[arg-type]
            raise TraceError(f"cannot cast array data from {self.dtype} to {np.dtype(dtype)} by the rule {casting!r}")
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return _run_with_trace_error(
            lambda: TracedArray(self.own_trace, self.own_trace.value(self, language_type(dtype)))
        )

    def copy(self, order: str = "C") -> Any:
        return TracedArray(self.own_trace, self.value)

    def conj(self) -> Any:
        return self

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            function = getattr(np, name)
            return lambda *args, **kwargs: function(self, *args, **kwargs)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"a traced array has no attribute {name!r}", name=name, obj=self)
        raise TraceError(f"the attribute `{name}` of an array cannot be traced", "compute it outside of the function")

    def __repr__(self) -> str:
        return f"<traced {self.value.type} of `{self.own_trace.function}`>"


def _write_out(out: tuple[Any, ...], made: Any) -> Any:
    """Give `out` new elements, in its own type, as `out=a` and `a += b` of arrays mean it."""
    if isinstance(made, tuple):
        return tuple(_write_out((target,), part) for target, part in zip(out, made, strict=True))
    (target,) = out
    return made if target is None else _overwrite(target, made)


def _overwrite(target: Any, made: Any) -> Any:
    """An array that has the elements of another from now on, in its own type."""
    if not isinstance(target, TracedArray):
        raise TraceError("the result of traced arrays is written into an array of NumPy's", "use the result instead")
    if target.shape != made.shape:
        raise TraceError(f"a result of shape {made.shape} is written into an array of shape {target.shape}")
    target.write(made.astype(target.dtype, casting="same_kind").value)
    return target


class MaskedElements(TracedArray):
    """`x[mask]`: elements whose number is data. Functions of elements are computed of all, and of those that the mask
    picks there are reductions; they are assigned to the elements of the same mask.
    """

    __slots__ = ("part",)

    def __init__(self, trace: ArrayTrace, part: MaskedPart) -> None:
        super().__init__(trace, None)
        self.part = part

    @property
    def value(self) -> GraphValue:
        raise TraceError("what a mask picks has a size that depends on data", MASK)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.part.everywhere.type.dtype.numpy)

    @property
    def is_number(self) -> bool:
        return False

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A ufunc of numbers and of elements that the same mask picks."""
        (out,) = kwargs.pop("out", (None,))
        if method != "__call__" or kwargs or (out is not None and out is not self):
            raise TraceError(f"np.{ufunc.__name__} of what a mask picks cannot be traced so", MASK)
        return self._replace_elements(ufunc(*(self._everywhere(x) for x in inputs)))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Reductions over the mask's dimensions."""
        axis = args[1] if len(args) == 2 else kwargs.pop("axis", None)
        axes, everywhere = self.part.axes, TracedArray(self.own_trace, self.part.everywhere)
        if function not in _MASKED_REDUCTIONS or len(args) > 2 or not (axis is None or (axis,) == axes[:1]):
            raise TraceError(f"np.{function.__name__} of what a mask picks cannot be traced", MASK)
        mask = TracedArray(self.own_trace, self.own_trace.nodes.view(self.part.mask, self.part.broadcast_shape))
        kwargs |= {"axis": None if axis is None else axes, "where": mask}
        if function in (np.max, np.min):
            kwargs["initial"] = limit_of(self.part.everywhere.type.dtype, largest=function is np.min)
        return function(everywhere, **kwargs)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        return self._replace_elements(TracedArray(self.own_trace, self.part.everywhere).astype(dtype, *args, **options))

    def _everywhere(self, operand: Any) -> Any:
        if isinstance(operand, MaskedElements) and self.part.is_of(self.own_trace, operand.part):
            return TracedArray(self.own_trace, operand.part.everywhere)
        if not isinstance(operand, MaskedElements) and np.ndim(operand) == 0:
            return operand
        raise TraceError("what a mask picks meets an array that is not picked by it", MASK)

    def _replace_elements(self, made: TracedArray) -> MaskedElements:
        return MaskedElements(self.own_trace, replace(self.part, everywhere=made.value))


def _multiply_vectors(a: Any, b: Any) -> Any:
    """Sums of products along the last dimension, in the type of these."""
    terms = a * b
    return np.any(terms, axis=-1) if terms.dtype == bool else np.sum(terms, axis=-1, dtype=terms.dtype)


_MASKED_REDUCTIONS = frozenset({np.sum, np.prod, np.mean, np.max, np.min, np.all, np.any, np.var, np.std})
_PRODUCTS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "vecdot": _multiply_vectors,
        "matvec": lambda a, b: np.matmul(a, b[..., None])[..., 0],
        "vecmat": lambda a, b: np.matmul(a[..., None, :], b)[..., 0, :],
    }
)
