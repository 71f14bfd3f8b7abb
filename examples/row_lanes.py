"""A rule for sums of rows: metasched rules try examples/row_lanes.py examples/gemv.ms"""

import metasched as ms


@ms.rule
def row_lanes(sch, block, *, lanes: int = 16):
    """Sum along the last dimension in vector lanes: neighbouring terms go to different partial sums.

    Args:
        lanes: how many partial sums each element of the result has.
    """
    info = sch.describe(block)
    if not info.reduces or not info.trivial:
        return ms.skip("it is not a reduction that is not scheduled yet")
    along = info.reduction[-1].name
    if not all(read.uses and along in read.uses[-1] for read in info.reads):
        return ms.skip("it does not read along its reduction")
    *rows, k = sch.get_loops(block)
    _, lane = sch.split(k, [None, lanes])
    partial = sch.rfactor(lane)
    sch.vectorize(sch.get_loops(partial)[-1], lanes=lanes)
    sch.reverse_compute_at(block, rows[-1])
