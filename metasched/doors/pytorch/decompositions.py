"""What PyTorch's core operators are made of, with results that lie in memory as PyTorch's own do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from metasched.doors.pytorch.tensors import fills_its_memory, memory_order, torch_module
from metasched.support.imports import imports

Decomposition = Callable[..., Any]


def decompositions() -> dict[Any, Decomposition]:
    """PyTorch's decompositions into core operators, by what they are of."""
    table = imports.module("torch._decomp").core_aten_decompositions()
    return {op: _match_strides(op, made_of) for op, made_of in table.items()}


def _match_strides(op: Any, made_of: Decomposition) -> Decomposition:
    """A decomposition whose results have the strides of the operator's own.

    Some have those of other devices: attention's are laid out by tokens, and on the CPU as the queries. Views and
    whatever follows go by the strides of the graph that is traced.
    """
    torch = torch_module()
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(op.name(), "Meta"):  # noqa: SLF001 -- no public name
        return made_of  # PyTorch itself knows its strides by the decomposition
    tracing = imports.module("torch.fx.experimental.proxy_tensor")

    @wraps(made_of)
    def run(*args: Any, **kwargs: Any) -> Any:
        made = made_of(*args, **kwargs)
        if made is NotImplemented:
            return made
        with tracing.disable_proxy_modes_tracing():
            wanted = op(*args, **kwargs)
        if isinstance(made, torch.Tensor):
            return _laid_out(made, wanted)
        if isinstance(made, tuple | list):
            parts = [_laid_out(*pair) for pair in zip(made, wanted, strict=True)]
            return parts if isinstance(made, list) else tuple(parts)  # named tuples are made of their fields
        return made

    return run


def _laid_out(made: Any, wanted: Any) -> Any:
    """A result in the memory order of another; as it is, where it has that, or is no tensor of the same shape."""
    torch = torch_module()
    if not (isinstance(made, torch.Tensor) and isinstance(wanted, torch.Tensor)) or made.shape != wanted.shape:
        return made
    order = memory_order(wanted)
    if not fills_its_memory(wanted) or memory_order(made) == order:
        return made
    return made.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))])
