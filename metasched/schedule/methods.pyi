"""What the methods of a `Schedule` take and return (written by `make docs` from the declarations; a test compares)."""

from collections.abc import Callable, Sequence
from typing import Literal

from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV

class PrimitiveMethods:
    def add_unit_loop(self, target: LoopRV | BlockRV, *, labels: Sequence[str] = ...) -> LoopRV:
        """Put a loop of one iteration around a loop or a block: a place for other blocks to be computed at.

        A block that writes a single number of no dimensions has no loops of its own. Machine code has no trace of it.

        Args:
            target: a loop, with all that is inside it, or a block.

        Requires:
            The target is still there, and shares no parallel region. No block is in more than 64 loops afterwards.

        Rewrite:
            root: N = sqrt(S)                     ->     for unit in 1:
                                                             root: N = sqrt(S)
        """
    def annotate(self, target: LoopRV | BlockRV, key: str, value: Int | int | bool, *, labels: Sequence[str] = ...) -> None:
        """Tell the compiler what to do with a loop or a block; an annotation of the same key is replaced.

        Args:
            target: a loop or a block.
            key: which one; `metasched/schedule/annotations/` has a file for each, which says what it means.
            value: an integer or an integer random variable, 0 for none; True and False for what is on or off.

        Requires:
            The key is known, it is about what `target` is, and takes the value; some require more, as their files say.
        """
    def cache_read(self, block: BlockRV, buffer: str, scope: str = 'global', *, labels: Sequence[str] = ...) -> BlockRV:
        """Copy a buffer that a block reads into a new buffer, and let the block read that one.

        The copy is a block `BLOCK.BUFFER.read` over the whole buffer, placed before the block's outermost loop; compute_at
        moves it to where it is needed. The new buffer is `BUFFER_SCOPE`.

        Args:
            block: the reader.
            buffer: the name of the buffer.
            scope: where the copy lives: "global", "local" or "register".

        Requires:
            The block reads the buffer, and no loop of the block computes it.

        Rewrite:
            for i, k in grid(8, 8):                      for i_row_A_read, k_row_A_read in grid(8, 8):
                row: C[i] += A[i, k]              ->         row.A.read: A_local[i, k] = A[i, k]
                                                         for i, k in grid(8, 8):
                                                             row: C[i] += A_local[i, k]
        """
    def cache_write(self, block: BlockRV, scope: str = 'global', *, labels: Sequence[str] = ...) -> BlockRV:
        """Let a block write a new buffer, and copy that one to where the block wrote before.

        The copy is a block `BLOCK.BUFFER.write` over the whole buffer, placed after the block's outermost loop;
        reverse_compute_at moves it to where its elements are complete. The new buffer is `BUFFER_SCOPE`.

        Args:
            block: the writer.
            scope: where the cache lives: "global", "local" or "register".

        Requires:
            No loop of the block holds a reader of what it writes, and the block completes it: it is not the `init` block of
            a decomposed reduction, and no arg-reduction.

        Rewrite:
            for i, k in grid(8, 8):                      for i, k in grid(8, 8):
                row: C[i] += A[i, k]              ->         row: C_local[i] += A[i, k]
                                                         for i_row_C_write in 8:
                                                             row.C.write: C[i] = C_local[i]
        """
    def compute_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Move a producer under a loop of its readers, where each iteration computes just what they read in it.

        The block gets new serial loops, one for each of its iteration variables: over the region needed for those that
        index its buffer, over the whole domain for reductions. What several iterations need is computed by each.

        Args:
            block: the producer; it may be a reduction.
            loop: a loop around all its readers; or `root`, to leave it, or `inline`, for compute_inline.

        Requires:
            The buffer is intermediate and has no other writer. All readers are under the loop, and what the block reads is
            complete before the first of them there. The loop is not around the block already, and not in a vector loop.

        Rewrite:
            for i in 66:                                 for i_0 in 8:
                double: B[i] = A[i] * 2                      for i_double in 10:
            for i_0, i_1 in grid(8, 8):           ->             double: B[i] = A[i] * 2  with i = i_0*8 + i_double
                sum: C[i] = B[i] + B[i + 2]                  for i_1 in 8:
                                                                 sum: C[i] = B[i] + B[i + 2]  with i = i_0*8 + i_1
        """
    def compute_inline(self, block: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Put a block's expression in the place of every read of its buffer, and drop the block and the buffer.

        A read under a condition stays under it.

        Args:
            block: the block to inline.

        Requires:
            The block is not a reduction, and its buffer is intermediate: not an output, written by no other block.
            What the block reads is not computed inside the block's own loops. The expression that a reader has afterwards
            is small: at most 200 levels, and where it reads the buffer more than once, at most 1000 operations, reads and
            numbers. Where it is index arithmetic, it fits in 64 bits; and a reader that writes over a fill, or a part of a
            buffer, still reads something.

        Rewrite:
            double: B[i] = A[i] * 2                      add: C[i] = A[i + 1] * 2 + 1
            add:    C[i] = B[i + 1] + 1           ->
        """
    def decompose_padding(self, block: BlockRV, loop: LoopRV, *, labels: Sequence[str] = ...) -> BlockRV:
        """Split a padding stage into a block `BLOCK.fill` that writes the padding everywhere, before a loop, and a copy of
        what is inside without a condition.

        The fill gets copies of the loops from that one inward, of the same kind. The block keeps its loops: one that is a
        bounded variable runs over what is inside, and other bounds become guards.

        Args:
            block: a stage `VALUE if CONDITION else PADDING`.
            loop: the loop before which the fill goes.

        Requires:
            The padding reads no buffer, and the condition is bounds on sums of iteration variables. From the loop inward
            there is nothing but the block, and no other block writes its buffer.

        Rewrite:
            for i in 10:                                 for i_fill in 10:
                pad: B[i] = A[i - 1]              ->         pad.fill: B[i] = 0  with i = i_fill
                        if i >= 1 and i < 9 else 0       for i in 8:
                                                             pad: B[i] = A[i - 1]  with i = i + 1
        """
    def decompose_reduction(self, block: BlockRV, loop: LoopRV, *, labels: Sequence[str] = ...) -> BlockRV:
        """Split a reduction into a block `BLOCK.init` that writes the initial value, before a loop, and the updates.

        The initial block gets copies of the block's spatial loops from that loop inward, of the same kind.

        Args:
            block: the reduction.
            loop: the loop before which the initialisation goes.

        Requires:
            The loop is around the block, which alone writes its buffer; no loop of the reduction is outside it, and none of
            the loops that the initialisation needs is used by the reduction, too. Nothing is computed again in another
            iteration of the loop or of one inside, as after compute_at.

        Rewrite:
            for i, k in grid(8, 64):                     for i in 8:
                sum: C[i] += A[i, k]  init 0      ->         sum.init: C[i] = 0
                                                             for k in 64:
                                                                 sum: C[i] += A[i, k]
        """
    def fuse(self, *loops: LoopRV, labels: Sequence[str] = ...) -> LoopRV:
        """Fuse loops, each directly inside the one before, into one over all their iterations.

        Args:
            loops: serial loops, outermost first; of one loop, the loop itself.

        Requires:
            Each is the only thing inside the one before. Where a guard leaves out terms of a reduction, as of imperfect
            partial results, some loop in it stays the reduction's alone.

        Rewrite:
            for i, j in grid(16, 8):             for i_j in 128:
                C[i, j] = A[i, j]          ->        C[i, j] = A[i, j]    with i = i_j // 8, j = i_j % 8
        """
    def fuse_reduction_epilogue(self, block: BlockRV, epilogue: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Let a reduction start from what its epilogue would combine with the result, and write where the epilogue did.

        A bias that is added to every element of a sum is where the sum starts. (TVM's FuseReductionEpilogue.) What is no
        operand of the same operation, such as ReLU, goes under the reduction's loops with reverse_compute_at.

        Args:
            block: a reduction.
            epilogue: the block that reads its result.

        Requires:
            The epilogue combines each element of the result, once, with something by the reduction's own operation (adds it
            to a sum; a difference from a sum, too), has an element for each, and is all that reads the result. The
            reduction has its `init`, and neither block is under a loop of the other. What the epilogue reads besides is
            there before the reduction.

        Rewrite:
            dense: C[i, j] += A[i, k] * B[k, j]  init 0       dense: D[i, j] += A[i, k] * B[k, j]  init b[j]
            bias:  D[i, j] = C[i, j] + b[j]             ->
        """
    def get_block(self, name: str, *, labels: Sequence[str] = ...) -> BlockRV:
        """The block of that name.

        Args:
            name: a stage's label, or its buffer where it has none; or a name that a primitive generated.

        Requires:
            The program has such a block now.
        """
    def get_consumers(self, block: BlockRV, *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """The blocks that read what a block writes, in program order.

        Args:
            block: any block.
        """
    def get_loops(self, block: BlockRV, *, labels: Sequence[str] = ...) -> list[LoopRV]:
        """The loops around a block, outermost first.

        Args:
            block: any block.
        """
    def get_producers(self, block: BlockRV, *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """The blocks that write what a block reads, in program order.

        Args:
            block: any block.
        """
    def loop_partition(self, loop: LoopRV, points: Sequence[Int | int] = (), *, labels: Sequence[str] = ...) -> list[LoopRV]:
        """Split the range of a loop into parts that run one after another, each with a copy of the body.

        So the part in the middle is free of the conditions of a border, and full tiles of the guard of the last one. What a
        part's range decides is left out of the code that is generated; the program keeps it as written.

        The main part, the first of two and the second of more, keeps the names of its blocks and loops; the copies are
        `BLOCK.head`, `BLOCK.middle` and `BLOCK.tail`, and buffers that only the body uses are copied as well.

        Args:
            loop: a serial loop.
            points: where the parts after the first begin, ascending; left out, where conditions on the loop inside it begin
                or cease to hold for all that is inside.

        Requires:
            The points are inside the loop's range, each more than the one before. Left out, there is a condition that
            changes along the loop, and extents are known. The loop is not over both the elements and the reduction of a
            block, and computes no part of a window that rolls.

        Rewrite:
            for i_0, i_1 in grid(16, 8):                 for i_0_0, i_1 in grid(15, 8):
                C[i] = A[i]  if i < 127           ->         C[i] = A[i]
                                                         for i_0_1, i_1_tail in grid(1, 8):
                                                             C[i] = A[i]  if i < 127
        """
    def merge_parallel(self, *loops: LoopRV, labels: Sequence[str] = ...) -> None:
        """Run parallel loops that follow one another in one parallel region, with a barrier between one and the next.

        Threads are started once for all of them, and wait for one another after each loop, which takes less time than
        starting them again. What stands between the loops is run by one thread while the others wait.

        Args:
            loops: two parallel loops or more, in the program's order. Those that share a region already bring the others
                of it.

        Requires:
            The loops stand beside one another: outside of all loops, or directly inside the same one. All parallel loops
            between them are given, and whatever else stands between has no parallel loop inside.

        Rewrite:
            parallel i in 64:                     parallel(region) i in 64:
                B[i] = A[i] * 2            ->         B[i] = A[i] * 2
            parallel j in 32:                     parallel(region) j in 32:
                C[j] = B[j] + B[63 - j]               C[j] = B[j] + B[63 - j]
        """
    def pad_einsum(self, block: BlockRV, padding: Sequence[Int | int], *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """Extend the domain of a matmul-like reduction to multiples, so that tiles and intrinsics fit it.

        What the block reads comes from padded copies `BLOCK.BUFFER.pad`, which hold what the reduction leaves unchanged
        where there is no data; where elements are padded it writes a larger buffer, and `BLOCK.BUFFER.unpad` copies what is
        wanted. Returns these blocks, copies first. A variable whose number is 1 stays; with any other, copies are made even
        where its extent is a multiple already.

        Args:
            block: the reduction.
            padding: for each of its iteration variables in order, what its extent becomes a multiple of; a random variable
                is at least 2.

        Requires:
            The block's loops are as they were at the beginning. It reduces a product of reads, or for a maximum or minimum
            one read, at bare variables where these are padded; what it writes is indexed by those of them that are not of
            the reduction. With a padded variable of the reduction, every factor is
            read at it: nothing is multiplied by padding but padding.

        Rewrite:
            for i, k in grid(7, 9):                      for i_.., k_.. in grid(8, 12):
                sum: C[i] += A[i, k] * X[k]       ->         sum.A.pad: A_pad[i, k] = A[i, k] if i < 7 and k < 9 else 0
                                                         for k_.. in 12:
                                                             sum.X.pad: X_pad[k] = X[k] if k < 9 else 0
                                                         for i, k in grid(8, 12):
                                                             sum: C_pad[i] += A_pad[i, k] * X_pad[k]
                                                         for i_.. in 7:
                                                             sum.C.unpad: C[i] = C_pad[i]
        """
    def parallel(self, loop: LoopRV, *, labels: Sequence[str] = ...) -> None:
        """Run a loop's iterations on all threads, in contiguous parts of about equal size.

        Args:
            loop: a serial loop.

        Requires:
            No reduction runs along the loop, its iterations write different elements, and no loop around or inside
            it is parallel already or vectorized around it. One that stands between loops that share a region joins it; none
            is inside what one thread runs of a region.

        Rewrite:
            for i in 64:                    parallel i in 64:
                C[i] = A[i]          ->         C[i] = A[i]
        """
    def reindex(self, block: BlockRV, buffer: str, *, labels: Sequence[str] = ...) -> BlockRV:
        """Let a block read or write a copy of a buffer at its own iteration variables, in their order.

        Of a buffer that is read, the copy `BLOCK.BUFFER.reindex` comes before the block's outermost loop, and unfolds what
        overlaps: of a convolution's input it makes a matrix. Of the buffer that is written, it comes after, and puts every
        element where it belongs. The new buffer is `BUFFER_reindex`.

        Args:
            block: the block.
            buffer: the name of a buffer that it reads or writes.

        Requires:
            The block reads the buffer at one place, inside the buffer whatever the iteration is; and no loop of the block
            computes the buffer, or reads what the block writes. No other block writes what it writes.

        Rewrite:
            for i, r in grid(8, 3):                      for i_.., r_.. in grid(8, 3):
                conv: Y[i] += X[i + r]            ->         conv.X.reindex: X_reindex[i, r] = X[i + r]
                                                         for i, r in grid(8, 3):
                                                             conv: Y[i] += X_reindex[i, r]
        """
    def reorder(self, *loops: LoopRV, labels: Sequence[str] = ...) -> None:
        """Put nested loops into the given order; loops between them that are not named stay where they are.

        Args:
            loops: distinct loops of one nest, in the new order, outermost first.

        Requires:
            From the outermost to the innermost of them, each loop is the only child of the one around it. No parallel loop
            comes to be inside a vectorized one, or leaves the loops that it shares a region with.

        Rewrite:
            for i, j, k in grid(8, 8, 8):            for k, i, j in grid(8, 8, 8):
                C[i, j] += A[i, k] * B[k, j]   ->        C[i, j] += A[i, k] * B[k, j]
        """
    def reverse_compute_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Move a consumer under a loop of what it reads, where each iteration works on just what was completed in it.

        The block gets new serial loops, one for each of its iteration variables: over the completed region for those that
        index it, over the whole domain for the others.

        Args:
            block: the consumer; it may be a reduction, if all it reduces over is complete there.
            loop: a loop around blocks whose results it reads; or `root`, to leave it, or `inline`, for
                reverse_compute_inline.

        Requires:
            Reductions of what the block reads are complete in one iteration of the loop, for a box of consecutive elements
            that no other iteration completes. Where the box is less than a whole dimension, the block reads that dimension
            at one bare spatial iteration variable. All else it reads is complete before. No other block writes its buffer.

        Rewrite:
            for i_0, k, i_1 in grid(8, 64, 8):           for i_0 in 8:
                sum: C[i] += A[i, k]                         for k, i_1 in grid(64, 8):
            for i in 64:                          ->             sum: C[i] += A[i, k]  with i = i_0*8 + i_1
                relu: D[i] = max(C[i], 0)                    for i_relu in 8:
                                                                 relu: D[i] = max(C[i], 0)  with i = i_0*8 + i_relu
        """
    def reverse_compute_inline(self, block: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Put an elementwise block into the block whose result it reads, and drop the buffer between them.

        Args:
            block: the consumer, which reads one intermediate buffer, only at its own bare iteration variables.

        Requires:
            The buffer has one writer, which is not a reduction, and no other reader; both run over the same domain.
            Whatever else the consumer reads is complete before the writer's loops. The writer computes nothing again in
            loops that it shares with the consumer, as it may after compute_at. The expression that comes of it is small, as
            in compute_inline, and index arithmetic in it fits in 64 bits.

        Rewrite:
            add:  C[i, j] = A[i, j] + 1                  add: D[i, j] = max(A[i, j] + 1, 0)
            relu: D[i, j] = max(C[i, j], 0)       ->
        """
    def rfactor(self, loop: LoopRV, axis: int = 0, *, labels: Sequence[str] = ...) -> BlockRV:
        """Turn a reduction loop into a dimension of a buffer of partial results, and reduce over that afterwards.

        The loops stay around the new block `BLOCK.rf`, which writes the partial results `BUFFER_rf`; they are independent
        in the loop, which can then be parallel or vectorized. The block itself reduces over them in loops of its own.

        Args:
            loop: the loop: a whole reduction, or a part of a split one.
            axis: where the new dimension goes in the buffer of partial results.

        Requires:
            A reduction runs over the loop, with nothing but its reduction, and it has its `init`. No guard leaves out
            iterations of the loop alone, as after fusing the parts of an imperfect tile, nor of another of its loops more
            than the end.

        Rewrite:
            for k_0, k_1 in grid(4, 16):                 for k_0, k_1 in grid(4, 16):
                sum: S[0] += A[k]                 ->         sum.rf: S_rf[k_0, 0] += A[k_0*16 + k_1]
                                                         for k_0_1 in 4:
                                                             sum: S[0] += S_rf[k_0, 0]
        """
    def sample_categorical(self, values: Sequence[int], probabilities: Sequence[str | float | bool] = (), *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> Int:
        """One integer out of a list: a vector width, an unroll limit.

        For structural alternatives use `choose`, whose result is a plain value to branch on.

        Args:
            values: distinct integers.
            probabilities: one for each, adding up to 1; uniform when left out.
        """
    def sample_compute_location(self, block: BlockRV, *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> LocationRV:
        """Where to compute a block, for compute_at: a loop of its readers, `root` (as it is), or `inline`.

        A structural variable. Its options are `root`; `inline` where compute_inline is legal; and, outermost first, the
        loops of the first reader under which compute_at is legal, down to the innermost tile: below the reader's
        outermost reduction loops a block would be computed again for each of the tile's rows, so spatial loops inside
        a reduction loop are no options (as in MetaSchedule's `sample_compute_location`, Shao et al. 2022).

        Args:
            block: the producer.
        """
    def sample_partitioned_tile(self, loop: LoopRV, parts: int, partition: int, innerpart_factor: int, *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> list[Int]:
        """Tile sizes of a loop in two partitions, the inner one's product a multiple of a number.

        As sample_tile, `parts` integers, outermost first, to split the loop by; the outermost follows from the extent. For
        what works on a fixed number of elements at once: vectors of 16, an intrinsic's 4 terms.

        Args:
            loop: the loop to tile.
            parts: how many sizes, 2 to 64.
            partition: how many of them are in the outer partition, at least 1; the others are in the inner one.
            innerpart_factor: what the product of the inner partition is a multiple of.
        """
    def sample_tile(self, loop: LoopRV, parts: int = 2, innermost: int = 64, perfect: bool = False, *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> list[Int]:
        """Tile sizes of a loop: `parts` integers, outermost first, to split it by.

        The decision is the inner ones, written `[_, 8]`; the outer one is the extent divided by them, rounded up. The
        prior draws each, from the innermost outwards, with probability 0.8 among the divisors of what is left and else
        log-uniformly among all sizes, so that 127 and 1009 have tiles too.

        Args:
            loop: the loop to tile.
            parts: how many sizes, 2 to 64.
            innermost: the largest innermost size.
            perfect: only sizes that divide what is left of the extent.
        """
    def set_scope(self, block: BlockRV, scope: str, *, labels: Sequence[str] = ...) -> None:
        """Say where the buffer that a block writes lives.

        Args:
            block: the block that writes the buffer.
            scope: "global"; "local", a workspace of each thread; or "register", vector registers.

        Requires:
            The buffer is intermediate: outputs are the caller's.

        Rewrite:
            temp C: f32[8, 16]                    ->     temp C: f32[8, 16] register
        """
    def split(self, loop: LoopRV, factors: Sequence[Int | int | None], *, labels: Sequence[str] = ...) -> list[LoopRV]:
        """Split a loop into a nest of several, outermost first.

        Where the factors' product is more than the extent, a guard leaves the rest out.

        Args:
            loop: a serial loop.
            factors: their extents; one may be None, and is then the extent divided by the others, rounded up.

        Requires:
            At least two factors, each at least 1; their product covers the extent. No block is in more than 64 loops
            afterwards.

        Rewrite:
            for i in 127:                  for i_0, i_1 in grid(16, 8):
                C[i] = A[i]          ->        C[i] = A[i]    with i = i_0*8 + i_1  if i_0*8 + i_1 < 127
        """
    def storage_align(self, block: BlockRV, axis: int, factor: Int | int, offset: Int | int, *, labels: Sequence[str] = ...) -> None:
        """Put neighbours along a dimension a multiple of `factor` elements, and `offset` more, apart in memory.

        Rows whose distance is a power of two share few sets of a cache; with an offset of a line or a vector they share
        none. The gaps are neither written nor read. It is about the array as it is in the end, shrunk to the region used
        under its loops; an array in vector registers has no rows.

        Args:
            block: the block that writes the buffer.
            axis: the dimension, 0 the outermost; of the dimensions in memory where the buffer has a layout.
            factor: an integer or an integer random variable, in elements.
            offset: an integer or an integer random variable, in elements.

        Requires:
            The buffer is intermediate. The dimension is not the last one, whose neighbours stay next to each other.

        Rewrite:
            temp C: f32[64, 64]                   ->     temp C: f32[64, 64]  aligned(0, 64, 16)
        """
    def store_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Keep what a block computes in one iteration of a loop for the iterations after it, which compute only the rest.

        After compute_at, neighbouring iterations often need overlapping regions, and each computes all of its own. With the
        buffer's storage at a loop further out, the first iteration computes all of it, and each later one what is new. Of
        the dimension that moves, the storage holds just the window that one iteration needs (Halide's `store_at`, with its
        sliding window and folded storage: Ragan-Kelley et al. 2013, section 4).

        Args:
            block: a producer that compute_at has put under a loop of its readers.
            loop: a loop around that one; or `root`, outside all loops.

        Requires:
            The loops between run serially, and each moves the region that is computed, along one dimension, by the same
            step every time, less than the region's extent. They are not changed any more.

        Rewrite:
            temp B: f32[66, 64]                          temp B: f32[66, 64]  at root, 3 of axis 0
            for y in 64:                                 for y in 64:
                for r, x in grid(3, 64):          ->         for r, x in grid(3, 64):
                    B[y + r, x] = ...                            B[y + r, x] = ...  if y < 1 or r >= 2
                ... B[y, x] + B[y + 1, x] + B[y + 2, x]      ... B[y, x] + B[y + 1, x] + B[y + 2, x]
        """
    def tensorize(self, loop: LoopRV, intrinsic: str, *, labels: Sequence[str] = ...) -> None:
        """Compute a nest of loops with a tensor intrinsic: an instruction that does all of it at once.

        The loops stay as they are, and are not to be changed any more. A target that lacks the instruction is refused when
        the program is compiled.

        Args:
            loop: the outermost loop of the nest.
            intrinsic: its name, such as "dot_u8i8_vnni"; `metasched/schedule/intrinsics/` has a file for each.

        Requires:
            From the loop inward the program is what the intrinsic computes, up to names and the order of products: the
            same loops with the same extents, in any order, and the same element types. The last axis of each of the
            intrinsic's operands is contiguous in memory; the others may have any stride, except where the intrinsic says
            otherwise. No guard leaves out any of it, and no loop around is vectorized. Where the intrinsic takes denormals
            for zero, the block has the annotation "flush_denormals".

        Rewrite:
            for k_0 in 16:                               for k_0 in 16:
                for j, k_1 in grid(16, 4):                   for j in 16:  @tensorize("dot_u8i8_vnni")
                    dot: C[j] += ...              ->             for k_1 in 4:
                                                                     dot: C[j] += ...
        """
    def transform_block_layout(self, block: BlockRV, index_map: str | Callable[..., object], *, labels: Sequence[str] = ...) -> list[LoopRV]:
        """Let a block run over other iteration variables: those that a map makes of its own. Returns their loops.

        The block gets a nest of new serial loops, one for each, spatial ones outside. A buffer that is written at variables
        that change gets their dimensions, and its readers read it there. Where tiles of a reduction do not fit, there is a
        guard.

        Args:
            block: the block.
            index_map: from the block's iteration variables in order to the new ones, "n, h, w, c -> n*56 + h, w, c", or a
                function of as many indices.

        Requires:
            The block's loops are as they were at the beginning, one for each variable and around nothing else. The map
            keeps instances apart, leaves no gaps, and does not mix spatial variables with those of a reduction. Where the
            variables of the buffer change, it is intermediate, without a layout, no other block writes it, and tiles fit.

        Rewrite:
            for i, j in grid(8, 16):                     for i_j in 128:
                twice: B[i, j] = A[i, j] * 2      ->         twice: B[i_j] = A[i_j // 16, i_j % 16] * 2
            for i, j in grid(8, 16):                     for i, j in grid(8, 16):
                neg: C[i, j] = -B[i, j]                      neg: C[i, j] = -B[i*16 + j]
        """
    def transform_layout(self, block: BlockRV, index_map: str | Callable[..., object], *, labels: Sequence[str] = ...) -> None:
        """Say how the buffer that a block writes lies in memory: element `indices` is where the map puts them.

        The program goes on to index the buffer as before; reading and writing go to the new places. What a tile leaves open
        at the end of a dimension is neither written nor read. A second layout replaces the first.

        Args:
            block: the block that writes the buffer.
            index_map: from the buffer's indices to those in memory, outermost first: "i, j -> j//16, i, j%16", or a
                function, `lambda i, j: (j // 16, i, j % 16)`.

        Requires:
            The buffer is intermediate, as the layout of inputs and outputs is the caller's, and not stored at a loop. The
            map keeps elements apart: its outputs are sums of indices and their quotients and remainders by constants, from
            which the indices follow.

        Rewrite:
            temp C: f32[8, 64]                    ->     temp C: f32[8, 64]  layout i, j -> j // 16, i, j % 16
        """
    def unannotate(self, target: LoopRV | BlockRV, key: str, *, labels: Sequence[str] = ...) -> None:
        """Take back an annotation of a loop or a block.

        Args:
            target: a loop or a block.
            key: which one, as `annotate` names them.

        Requires:
            The annotation is there.

        Rewrite:
            for i in 64:  @unroll_limit(16)       ->     for i in 64:
        """
    def unroll(self, loop: LoopRV, *, labels: Sequence[str] = ...) -> None:
        """Repeat a loop's body for each of its iterations.

        To unroll as far as the code stays small, `annotate` a block or loop with "unroll_limit" instead.

        Args:
            loop: a serial loop.

        Requires:
            Its extent is at most 512.

        Rewrite:
            for i in 4:                     for i in 4 unrolled:
                C[i] = A[i]          ->         C[i] = A[i]
        """
    def vectorize(self, loop: LoopRV, *, lanes: Int | int, labels: Sequence[str] = ...) -> None:
        """Run a loop in strips of `lanes` iterations at once; the last strip is masked where the extent is no multiple.

        The innermost loop of a reduction may be one that the reduction runs along. Each lane then has a sum of its own,
        over all the loops of the reduction, and the lanes are folded at its end, half onto half. As many lanes as several
        registers have are several accumulators, which do not wait for one another. Of `argmax` and `argmin` each lane has a
        value and its position.

        Args:
            loop: a serial loop of any extent.
            lanes: elements in a vector, 1 to 64.

        Requires:
            A reduction runs along the loop only where the loop is right around its block;
            otherwise every block inside writes other elements in each iteration. No loop around or inside it is vectorized
            or tensorized, and it has no annotation to prefetch.

        Rewrite:
            for j in 512:                   for j in 512 vectorized(16):
                C[j] = A[j]          ->         C[j] = A[j]
        """
