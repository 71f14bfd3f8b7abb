"""Integers that a graph only computes with, such as factors, and takes as tensors."""

from __future__ import annotations

import operator
from typing import Any

from metasched.doors.pytorch.tensors import torch_module

# By Python's names of them, PyTorch's, and those of methods.
_INTEGER_OPERATORS = ("add", "mul", "neg", "sub")
_ARITHMETIC = (
    *_INTEGER_OPERATORS, "add_", "div", "eq", "floordiv", "ge", "gt", "iadd", "imul", "isub", "le", "lt", "mod", "mul_",
    "ne", "remainder", "rsub", "sub_", "truediv",
)  # fmt: skip


def integer_inputs(module: Any) -> list[int]:
    """The numbers of the inputs of a graph that are integers, and no sizes, and give nothing but operands of tensors.

    A tensor of one integer in the place of such an input gives the same elements of the same types.
    """
    torch = torch_module()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("example_value") for node in placeholders]
    sizes = {symbol for value in values if isinstance(value, torch.Tensor) for symbol in _symbols(*value.shape)}
    return [
        number
        for number, (node, value) in enumerate(zip(placeholders, values, strict=True))
        if isinstance(value, torch.SymInt)
        and sizes.isdisjoint(_symbols(value))
        and node.users
        and all(_computes(user, node) for user in node.users)
    ]


def _symbols(*extents: Any) -> set[Any]:
    known = [extent.node.expr for extent in extents if isinstance(extent, torch_module().SymInt)]
    return {symbol for expression in known for symbol in expression.free_symbols}


def _computes(user: Any, integer: Any) -> bool:
    """Whether a node takes an integer as one of two operands, and the other, or what is made of it, is a tensor."""
    torch = torch_module()
    made, operands = user.meta.get("example_value"), user.args[:2]
    if not _is_arithmetic(user) or integer in user.args[2:] or integer in user.kwargs.values():
        return False
    if isinstance(made, torch.SymInt):
        return _name(user) in _INTEGER_OPERATORS and all(_computes(later, user) for later in user.users)
    others = [operand.meta.get("example_value") for operand in operands if isinstance(operand, torch.fx.Node)]
    # One integer of an array and one number of Python's have a type together that two integers of arrays have not.
    return any(isinstance(other, torch.Tensor) and (other.dim() or other.is_floating_point()) for other in others)


def _is_arithmetic(node: Any) -> bool:
    name = _name(node)
    own = (getattr(operator, name, None), getattr(torch_module(), name, None))
    return name in _ARITHMETIC and (node.op == "call_method" or node.target in own)


def _name(node: Any) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
