"""Steps of optimizers that PyTorch does not count as writes."""

from __future__ import annotations

from functools import cache
from typing import Any

from metasched.doors.pytorch.tensors import torch_module
from metasched.support.imports import imports


@cache  # one hook for the process
def count_fused_steps() -> Any:
    """From now on, steps of all optimizers with `fused=True` count as writes of their parameters, as others do.

    PyTorch's fused kernels write parameters and leave their versions as they were, by which a graph that has them as
    constants sees that they were written.
    """
    return imports.module("torch.optim.optimizer").register_optimizer_step_post_hook(_count_step)


def _count_step(optimizer: Any, args: Any, kwargs: Any) -> None:
    del args, kwargs
    torch = torch_module()
    if torch.compiler.is_compiling():  # a step that is traced is no step yet
        return
    for group in optimizer.param_groups:
        if group.get("fused"):
            torch.autograd.graph.increment_version([p for p in group["params"] if p.grad is not None])
