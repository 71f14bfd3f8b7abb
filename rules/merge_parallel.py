"""One parallel region for nests that follow one another."""

from __future__ import annotations

import metasched as ms


@ms.rule
def merge_parallel(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Have nests that follow one another on threads share a parallel region: threads start once for all of them.

    What stands between them is run by one thread of the region, unless threads share a loop inside it. It belongs
    after `parallelize`, and is no part of a preset: `--rules cpu,+merge_parallel`.
    """
    if sch.describe(block).name != sch.block_names()[0]:
        return ms.skip("the first block of the program decides for all")
    found = [blocks for blocks in _neighbours(sch) if len(blocks) > 1]
    if not found:
        return ms.skip("no two nests that follow one another are on threads")

    def steps(on: ms.Schedule) -> None:
        for blocks in found:
            on.merge_parallel(*(on.get_loops(on.get_block(name))[0] for name in blocks))

    reason = sch.refusal(steps)
    if reason is not None:
        return ms.skip(reason)
    steps(sch)
    return None


def _neighbours(sch: ms.Schedule) -> list[list[str]]:
    """Runs of nests on threads that could share a region: of each nest, a block."""
    runs: list[list[str]] = [[]]
    last = ""
    for name in sch.block_names():
        info = sch.describe(sch.get_block(name))
        if ms.LoopKind.PARALLEL in info.kinds[1:]:
            runs.append([])
        elif info.kinds[:1] == (ms.LoopKind.PARALLEL,) and info.loops[0] != last:
            runs[-1].append(name)
        last = info.loops[0] if info.loops else ""
    return runs
