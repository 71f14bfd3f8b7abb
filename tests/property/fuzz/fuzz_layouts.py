"""Random attempts at what changes layouts, iteration spaces and padding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from metasched.ir import query

if TYPE_CHECKING:
    from fuzz_actions import Spot

LayoutAction = Callable[["Spot"], object]


def _index_map(s: Spot, names: list[str], extents: list[int], together: Callable[[int, int], bool]) -> str:
    """A map that splits and fuses at random; only what may be together is fused."""
    digits = [(name, extents[n], n) for n, name in enumerate(names)]
    for _ in range(s.number(0, 3)):
        at = s.number(0, len(digits) - 1) if digits else 0
        if not digits:
            break
        text, size, of = digits.pop(at)
        if s.chance(0.6):
            f = s.number(1, 5)
            digits[at:at] = [(f"({text})//{f}", -(-size // f), of), (f"({text})%{f}", f, of)]
            continue
        partners = [d for d in digits if together(of, d[2])]
        if not partners:
            digits.insert(at, (text, size, of))
            continue
        other = s.pick(partners)
        digits.remove(other)
        digits.append((f"({text})*{other[1]} + {other[0]}", size * other[1], of))
    order = [digits[n][0] for n in s.rng.permutation(len(digits))] if s.chance(0.5) else [d[0] for d in digits]
    return f"{', '.join(names)} -> {', '.join(order)}"


def _transform_layout(s: Spot) -> None:
    block = query.find_block(s.sch.func, s.info.name)
    buffer = s.sch.func.buffer(block.store.buffer)
    names = [f"x{n}" for n in range(len(buffer.shape))]
    s.sch.transform_layout(s.block, _index_map(s, names, [7] * len(names), lambda a, b: False))


def _transform_block_layout(s: Spot) -> None:
    iters = s.info.iters
    names = [f"x{n}" for n in range(len(iters))]
    sizes = [it.extent or 7 for it in iters]
    text = _index_map(s, names, sizes, lambda a, b: iters[a].reduces == iters[b].reduces)
    s.sch.transform_block_layout(s.block, text)


def _reindex(s: Spot) -> None:
    written = query.find_block(s.sch.func, s.info.name).store.buffer
    copy = s.sch.reindex(s.block, s.read if s.chance(0.6) else written)
    if s.chance(0.3):
        s.sch.compute_at(copy, s.loop)


def _align(s: Spot) -> None:
    s.sch.storage_align(s.block, s.number(0, 1), s.pick([1, 4, 16]), s.number(0, 5))


def _pad(s: Spot) -> None:
    s.sch.pad_einsum(s.block, [s.pick([1, 2, 3, 4]) for _ in s.info.iters])


def _unannotate(s: Spot) -> None:
    loop = s.loop
    s.sch.annotate(loop, "unroll_limit", 4)
    s.sch.unannotate(loop, "unroll_limit")


LAYOUT_ACTIONS: Mapping[str, tuple[LayoutAction, ...]] = {
    "add_unit_loop": (lambda s: s.sch.add_unit_loop(s.loop if s.chance(0.5) else s.block),),
    "unannotate": (_unannotate,),
    "reindex": (_reindex,),
    "transform_layout": (_transform_layout,) * 2,
    "transform_block_layout": (_transform_block_layout,) * 2,
    "storage_align": (_align,),
    "pad_einsum": (_pad,) * 2,
    "decompose_padding": (lambda s: s.sch.decompose_padding(s.block, s.loop),) * 2,
}
