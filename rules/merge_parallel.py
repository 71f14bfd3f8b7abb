"""One parallel region for consecutive nests."""

from __future__ import annotations

import metasched as ms


@ms.rule
def merge_parallel(sch: ms.Schedule, block: ms.BlockRV) -> ms.Skip | None:
    """Run consecutive parallel nests in one parallel region: threads start once for all of them.

    Statements between them are run by one thread of the region. A statement with a parallel loop inside ends the
    region. Use the rule after `parallelize`; it is in no preset: `--rules cpu,+merge_parallel`.
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
    """Sequences of parallel nests that could share a region, each nest given by one block."""
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
