"""What the methods of a `Schedule` take and return (written by `make docs` from the declarations; a test compares)."""

from collections.abc import Callable, Sequence
from typing import Literal

from metasched.schedule.values import BlockRV, Int, LocationRV, LoopRV

class PrimitiveMethods:
    def add_unit_loop(self, target: LoopRV | BlockRV, *, labels: Sequence[str] = ...) -> LoopRV:
        """Put a loop of one iteration around a loop or a block, so that other blocks can be computed at it.

        A block that writes a scalar has no loops otherwise. The loop leaves no trace in the machine code.

        Args:
            target: a loop, with all that is inside it, or a block.

        Requires:
            The target still exists, and is not in a shared parallel region. No block is in more than 64 loops afterwards.

        Rewrite:
            root: N = sqrt(S)                     ->     for unit in 1:
                                                             root: N = sqrt(S)
        """
    def annotate(self, target: LoopRV | BlockRV, key: str, value: Int | int | bool, *, labels: Sequence[str] = ...) -> None:
        """Annotate a loop or a block for the compiler; an annotation with the same key is replaced.

        Args:
            target: a loop or a block.
            key: the annotation's key; each is documented in its file in `metasched/schedule/annotations/`.
            value: an integer or an integer random variable, 0 for none; True or False for a switch.

        Requires:
            The key is known, applies to this kind of target, and accepts the value; some keys require more, see their
            files. In a rule, one that lets results differ is allowed by the caller (`sch.allows`).
        """
    def cache_read(self, block: BlockRV, buffer: str, scope: str = 'global', *, labels: Sequence[str] = ...) -> BlockRV:
        """Copy a buffer that a block reads into a new buffer, which the block then reads instead.

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
        """Let a block write a new buffer, and copy that to the buffer that the block wrote before.

        The copy is a block `BLOCK.BUFFER.write` over the whole buffer, placed after the block's outermost loop;
        reverse_compute_at moves it to where its elements are complete. The new buffer is `BUFFER_SCOPE`.

        Args:
            block: the writer.
            scope: where the cache lives: "global", "local" or "register".

        Requires:
            No reader of the block's result is inside one of its loops, and the block completes that result: it is neither
            the `init` block of a decomposed reduction nor an arg-reduction.

        Rewrite:
            for i, k in grid(8, 8):                      for i, k in grid(8, 8):
                row: C[i] += A[i, k]              ->         row: C_local[i] += A[i, k]
                                                         for i_row_C_write in 8:
                                                             row.C.write: C[i] = C_local[i]
        """
    def carry(self, loop: LoopRV, *, labels: Sequence[str] = ...) -> None:
        """Go on from the element before: of each element of a running reduction, add only the term that is new.

        An element of `sum[k < N if k <= j](X[k])` is a sum of its own, N * N / 2 terms in all. One after another, with the
        element before to begin with, they take N. Elements are added up in the order of their terms, as without it. The
        elements wait for one another: vectors and threads are for what runs beside them, such as the columns of a matrix
        whose rows are added up, and `decompose_scan` is for long rows that are alone.

        Args:
            loop: the serial loop over the elements that a running reduction goes along.

        Requires:
            One block is inside, a running reduction: `<=` or `<` between its reduction variable and the loop's. The loops
            over both were not split or fused, that over terms is inside the loop, and no loop around is vectorised. The
            block has its `init`.

        Rewrite:
            for j, k in grid(64, 64):                       for j in 64:
                Y[j] += X[k] if k <= j else 0        ->         Y[j] = Y[j - 1] + X[j] if j > 0 else X[j]
        """
    def compute_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Move a producer into a loop around its readers; each iteration computes just the region that they read in it.

        The block gets new serial loops, one per iteration variable: over the required region for those that index its
        buffer, over the whole domain for reductions. Elements that several iterations need are recomputed in each.

        Args:
            block: the producer; it may be a reduction.
            loop: a loop around all its readers; `root` leaves the block where it is, `inline` applies compute_inline.

        Requires:
            The buffer is intermediate and has no other writer. All readers are under the loop, and what the block reads is
            complete before the first of them. The loop is not around the block already, nor inside a vectorised loop, nor
            inside a reduction loop of a reader whose `init` reads the buffer.

        Rewrite:
            for i in 66:                                 for i_0 in 8:
                double: B[i] = A[i] * 2                      for i_double in 10:
            for i_0, i_1 in grid(8, 8):           ->             double: B[i] = A[i] * 2  with i = i_0*8 + i_double
                sum: C[i] = B[i] + B[i + 2]                  for i_1 in 8:
                                                                 sum: C[i] = B[i] + B[i + 2]  with i = i_0*8 + i_1
        """
    def compute_inline(self, block: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Replace every read of a block's buffer by the block's expression, and remove the block and the buffer.

        A conditional read stays conditional, unless the block's condition holds for all that it computes (padding by 0).

        Args:
            block: the block to inline.

        Requires:
            The block is not a reduction, and its buffer is intermediate: not an output, written by no other block.
            What the block reads is not computed inside the block's own loops. Each reader's resulting expression is small:
            at most 200 levels deep, and if it reads the buffer more than once, at most 1000 operations, reads and numbers.
            Index arithmetic in it fits in 64 bits. A reader that overwrites a fill, or writes part of a buffer, still reads
            something.

        Rewrite:
            double: B[i] = A[i] * 2                      add: C[i] = A[i + 1] * 2 + 1
            add:    C[i] = B[i + 1] + 1           ->
        """
    def decompose_padding(self, block: BlockRV, loop: LoopRV, *, labels: Sequence[str] = ...) -> BlockRV:
        """Split a padding stage into a block `BLOCK.fill` that writes the padding everywhere, before a loop, and an
        unconditional copy of the interior.

        The fill gets copies of the loops from that one inward, of the same kinds. The block keeps its loops: a loop bound
        directly to a bounded variable runs over the interior only, which may be empty, and other bounds become guards.

        Args:
            block: a stage `VALUE if CONDITION else PADDING`.
            loop: the loop before which the fill goes.

        Requires:
            The padding reads no buffer, and the condition consists of bounds on sums of iteration variables. The loop
            contains nothing but the block, and no other block writes its buffer.

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
            The loop is around the block, which is the only writer of its buffer. No loop of the reduction is outside it,
            and the reduction uses none of the loops that the initialisation needs. No element is recomputed in different
            iterations of the loop or of a loop inside it, as can happen after compute_at.

        Rewrite:
            for i, k in grid(8, 64):                     for i in 8:
                sum: C[i] += A[i, k]  init 0      ->         sum.init: C[i] = 0
                                                             for k in 64:
                                                                 sum: C[i] += A[i, k]
        """
    def decompose_scan(self, block: BlockRV, size: int, *, labels: Sequence[str] = ...) -> BlockRV:
        """Take a running reduction in blocks of so many elements. Returns the block that reduces what comes before a block.

        An element of `sum[k < N if k <= j](X[k])` is a sum of its own, N * N / 2 terms in all. In blocks of `size` it is
        that of the terms of its block up to it, plus that of the blocks before: N * size terms, and a running sum over
        N / size blocks, which may be taken in blocks in turn. (Reduce-then-scan, as in Blelloch 1990, "Prefix sums and
        their applications", section 1; Chaurasia et al. 2015, "Compiling high-performance recursive filters", section 4.)
        Sums and products of floats are taken in another order: in a block alone, some may be beyond the largest number.

        Args:
            block: the running reduction: `<=`, `<`, `>=` or `>` between its reduction variable and one of its elements'.
            size: elements of a block, at least 2 and fewer than there are.

        Requires:
            The block's loops are untransformed and around nothing else, and it has its `init`. There is one reduction
            variable, over as many values as the variable of the elements that it is compared with, and terms depend on that
            in no other way.

        Rewrite:
            for j, k in grid(64, 64):                        for b, q, r in grid(8, 8, 8):
                y: Y[j] += X[k] if k <= j else 0                 y.within: Y_within[b, q] +=
                                                                     X[b*8 + r] if r <= q else 0
                                                      ->     for b_1, r_1 in grid(8, 8):
                                                                 y.totals: Y_totals[b] += X[b*8 + r]
                                                             for b_2, c in grid(8, 8):
                                                                 y.before: Y_before[b] += Y_totals[c] if c < b else 0
                                                             for j_1 in 64:
                                                                 y: Y[j] = Y_before[j // 8] + Y_within[j // 8, j % 8]
        """
    def fuse(self, *loops: LoopRV, labels: Sequence[str] = ...) -> LoopRV:
        """Fuse loops, each directly inside the one before, into one over all their iterations.

        Args:
            loops: serial loops, outermost first; a single loop is returned unchanged.

        Requires:
            Each is the only statement in the body of the one before. Where a guard skips terms of a reduction, as for
            imperfect partial results, at least one loop in the guard remains a pure reduction loop.

        Rewrite:
            for i, j in grid(16, 8):             for i_j in 128:
                C[i, j] = A[i, j]          ->        C[i, j] = A[i, j]    with i = i_j // 8, j = i_j % 8
        """
    def fuse_reduction_epilogue(self, block: BlockRV, epilogue: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Make the operand that an epilogue combines with a reduction the reduction's initial value, and remove the
        epilogue.

        For example, a sum starts from the bias that was added to it; the reduction writes the epilogue's buffer. (TVM's
        FuseReductionEpilogue.) A sum of floats starts from 0.0 and the bias: of a bias of -0.0 that is 0.0, as the result
        was. An epilogue by another operation, such as ReLU, can be moved under the reduction's loops
        with reverse_compute_at.

        Args:
            block: a reduction.
            epilogue: the block that reads its result.

        Requires:
            The epilogue combines each element of the result, once, with another operand by the reduction's own operation
            (for a sum, addition or subtraction of the operand), writes one element for each, and is the only reader of the
            result. The reduction still has its `init`, and the blocks share no loop. Everything else that the epilogue
            reads is computed before the reduction.

        Rewrite:
            dense: C[i, j] += A[i, k] * B[k, j]  init 0       dense: D[i, j] += A[i, k] * B[k, j]  init 0 + b[j]
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

        The middle part then needs no border conditions, and full tiles need no guard. The compiler drops conditions that a
        part's range decides; the program keeps them as written.

        The main part, the first of two and the second of more, keeps the names of its blocks and loops; the copies are
        `BLOCK.head`, `BLOCK.middle` and `BLOCK.tail`, and buffers that only the body uses are copied as well.

        Args:
            loop: a serial loop.
            points: where the parts after the first begin, ascending; by default the iterations at which a condition over
                the loop begins or ceases to hold for everything inside it.

        Requires:
            The points are inside the loop's range and ascending; parts may be empty, such as borders that one tile covers
            (`maximum(p, q)` is never below `p`), but not where the loop runs along a reduction. Without points, some
            condition changes along the loop, and extents are known. The loop does not drive both spatial and reduction
            variables of a block, and computes no part of a rolling window (store_at).

        Rewrite:
            for i_0, i_1 in grid(16, 8):                 for i_0_0, i_1 in grid(15, 8):
                C[i] = A[i]  if i < 127           ->         C[i] = A[i]
                                                         for i_0_1, i_1_tail in grid(1, 8):
                                                             C[i] = A[i]  if i < 127
        """
    def merge_parallel(self, *loops: LoopRV, labels: Sequence[str] = ...) -> None:
        """Run consecutive parallel loops in one parallel region, with a barrier between each two.

        Threads are started once for all of the loops and wait at a barrier after each, which is faster than starting them
        again. Statements between the loops are run by one thread while the others wait.

        Args:
            loops: two or more parallel loops, in program order. A loop already in a shared region brings in all loops of
                that region.

        Requires:
            The loops are siblings: outside of all loops, or directly inside the same one. All parallel loops between them
            are given, and no other statement between them contains a parallel loop.

        Rewrite:
            parallel i in 64:                     parallel(region) i in 64:
                B[i] = A[i] * 2            ->         B[i] = A[i] * 2
            parallel j in 32:                     parallel(region) j in 32:
                C[j] = B[j] + B[63 - j]               C[j] = B[j] + B[63 - j]
        """
    def pad_einsum(self, block: BlockRV, padding: Sequence[Int | int], *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """Pad the domain of a matmul-like reduction to multiples, so that tiles and intrinsics divide it evenly.

        The block reads padded copies `BLOCK.BUFFER.pad`, which hold the reduction's neutral element in the padding. Where
        spatial variables are padded it writes a larger buffer, and `BLOCK.BUFFER.unpad` copies the original part out.
        Returns these blocks, the padded copies first. A padding of 1 leaves its variable alone; with any other, copies are
        made even where the extent already is a multiple.

        Args:
            block: the reduction.
            padding: for each of its iteration variables in order, the number that its extent is padded to a multiple of; a
                random variable is at least 2.

        Requires:
            The block's loops are untransformed. It reduces a product of reads, or for a maximum or minimum a single read.
            Padded variables index the reads bare, but spatial ones may be part of a sum, such as `2*w + r`, and so may
            reduction variables in a product of integers of which another factor is read at them bare: that is zero in the
            padding. The spatial ones index the result. A padded reduction variable indexes every factor, so that padding is
            only ever multiplied by padding, or integers by zeros.

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
            No reduction runs along the loop, its iterations write different elements, no loop around or inside it is
            parallel, and none around it is vectorised. A loop between loops of a shared parallel region joins that region;
            a loop nested in a part of a region that one thread runs cannot be parallel.

        Rewrite:
            for i in 64:                    parallel i in 64:
                C[i] = A[i]          ->         C[i] = A[i]
        """
    def reindex(self, block: BlockRV, buffer: str, *, labels: Sequence[str] = ...) -> BlockRV:
        """Let a block access a copy of a buffer that is indexed by the block's iteration variables, in their order.

        For a buffer that is read, the copy `BLOCK.BUFFER.reindex` comes before the block's outermost loop and duplicates
        overlapping elements: a convolution's input becomes a matrix (im2col). For the buffer that is written, it comes
        after the block and copies every element to its original position. The new buffer is `BUFFER_reindex`.

        Args:
            block: the block.
            buffer: the name of a buffer that it reads or writes.

        Requires:
            The block has one read of the buffer, in bounds in every iteration. No loop of the block computes the buffer or
            reads the block's result, and no other block writes that result.

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
            ends up inside a vectorised one, or apart from the loops of its shared parallel region.

        Rewrite:
            for i, j, k in grid(8, 8, 8):            for k, i, j in grid(8, 8, 8):
                C[i, j] += A[i, k] * B[k, j]   ->        C[i, j] += A[i, k] * B[k, j]
        """
    def reverse_compute_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Move a consumer into a loop around its producers; each iteration processes just the elements completed in it.

        The block gets new serial loops, one for each of its iteration variables: over the completed region for those that
        index it, over the whole domain for the others.

        Args:
            block: the consumer; it may be a reduction, if all it reduces over is complete there.
            loop: a loop around blocks whose results it reads; `root` leaves the block where it is, `inline` applies
                reverse_compute_inline.

        Requires:
            In each iteration of the loop, the reductions that the block reads are completed for a box of consecutive
            elements that no other iteration completes. Where the box is less than a whole dimension, the block reads that
            dimension at one bare spatial iteration variable. Everything else that it reads is complete before. No other
            block writes its buffer. The block runs over its whole domain, or else what it reads was computed whole.

        Rewrite:
            for i_0, k, i_1 in grid(8, 64, 8):           for i_0 in 8:
                sum: C[i] += A[i, k]                         for k, i_1 in grid(64, 8):
            for i in 64:                          ->             sum: C[i] += A[i, k]  with i = i_0*8 + i_1
                relu: D[i] = max(C[i], 0)                    for i_relu in 8:
                                                                 relu: D[i] = max(C[i], 0)  with i = i_0*8 + i_relu
        """
    def reverse_compute_inline(self, block: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Apply an elementwise block inside the block whose result it reads, and remove the buffer between them.

        Args:
            block: the consumer, which reads one intermediate buffer, only at its own bare iteration variables.

        Requires:
            The buffer has one writer, which is not a reduction, and no other reader; both run over the same domain.
            Whatever else the consumer reads is complete before the writer's loops. The writer recomputes no element in the
            loops that it shares with the consumer, as can happen after compute_at. The resulting expression is small, as in
            compute_inline, and index arithmetic in it fits in 64 bits.

        Rewrite:
            add:  C[i, j] = A[i, j] + 1                  add: D[i, j] = max(A[i, j] + 1, 0)
            relu: D[i, j] = max(C[i, j], 0)       ->
        """
    def rfactor(self, loop: LoopRV, axis: int = 0, *, labels: Sequence[str] = ...) -> BlockRV:
        """Turn a reduction loop into a dimension of a buffer of partial results, and reduce over that afterwards.

        The loops stay around the new block `BLOCK.rf`, which writes the partial results `BUFFER_rf`. These are independent
        along the loop, which can then be parallel or vectorised. The original block reduces them in separate loops.

        Args:
            loop: the loop: a whole reduction, or a part of a split one.
            axis: where the new dimension goes in the buffer of partial results.

        Requires:
            The loop drives only reduction variables of a single block, which still has its `init`. No guard skips
            iterations of the loop itself, as after fusing the parts of an imperfect tile; for the block's other loops, a
            guard may only skip iterations at the end.

        Rewrite:
            for k_0, k_1 in grid(4, 16):                 for k_0, k_1 in grid(4, 16):
                sum: S[0] += A[k]                 ->         sum.rf: S_rf[k_0, 0] += A[k_0*16 + k_1]
                                                         for k_0_1 in 4:
                                                             sum: S[0] += S_rf[k_0, 0]
        """
    def sample_categorical(self, values: Sequence[int], probabilities: Sequence[str | float | bool] = (), *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> Int:
        """Sample an integer from a list, such as a vector width or an unroll limit.

        For structural alternatives use `choose`, whose result is a plain value to branch on.

        Args:
            values: distinct integers.
            probabilities: one for each, adding up to 1; uniform when left out.
        """
    def sample_compute_location(self, block: BlockRV, *around: BlockRV, then: Sequence[BlockRV] = (), name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> LocationRV:
        """Sample a location for compute_at or reverse_compute_at: a loop around the block's readers or around what it
        reads, `root` (unchanged), or `inline`. With `then` it is one location for several blocks.

        The location is for compute_at where the blocks `around` read the block's result, and for reverse_compute_at where
        the block reads theirs. Blocks of `then` move after it, one by one, in their order: with compute_at those that a
        block of `around`, or one that moves before, reads, and with reverse_compute_at those that read such a block.

        A structural variable. Its options are `root`; `inline` where the primitives that it is for are legal with it; and,
        outermost first, the loops under which these primitives are legal one after another, down to the innermost tile:
        spatial loops inside a reduction loop are excluded, since a producer would be recomputed for each row of the tile
        there (as in MetaSchedule's `sample_compute_location`, Shao et al. 2022, which takes one producer only).

        Args:
            block: the producer or consumer to be moved.
            around: blocks that the loop is around. By default it is the first block that reads the result, and for an
                output the last that computes what the block reads.
            then: blocks that move to the same location after it: producers of producers, consumers of consumers, or others
                of what the loop is around.

        Requires:
            All blocks `around` read the block's result, or it reads all of theirs. Each block of `then` is named once, and
            is read by blocks of `around` and blocks before it, or reads from them, and not both.
        """
    def sample_partitioned_tile(self, loop: LoopRV, parts: int, partition: int, innerpart_factor: int, *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> list[Int]:
        """Sample tile sizes in two partitions, the product of the inner one a multiple of a number.

        As in sample_tile, the result is `parts` integers, outermost first, to split the loop by; the outermost follows from
        the extent. Use it where elements are processed in fixed groups: vectors of 16, an intrinsic's 4 terms.

        Args:
            loop: the loop to tile.
            parts: how many sizes, 2 to 64.
            partition: how many of them are in the outer partition, at least 1; the others are in the inner one.
            innerpart_factor: what the product of the inner partition is a multiple of.
        """
    def sample_tile(self, loop: LoopRV, parts: int = 2, innermost: int = 64, perfect: bool = False, step: int = 0, *, name: str | None = ..., address: str | None = ..., decision: object = ..., labels: Sequence[str] = ...) -> list[Int]:
        """Sample a loop's tile sizes: `parts` integers, outermost first, to split it by.

        The decision is the inner sizes, written `[_, 8]`; the outer one is the extent divided by their product, rounded up.
        The prior draws each, from the innermost outwards, with probability 0.8 among the divisors of what is left and else
        log-uniformly among all sizes, so that 127 and 1009 have tiles too. With a `step`, half of the draws of the
        innermost size are multiples of it, log-uniformly, dividing or not: whole vectors along 100 elements, say.

        Args:
            loop: the loop to tile.
            parts: how many sizes, 2 to 64.
            innermost: the largest innermost size.
            perfect: only sizes that divide what is left of the extent.
            step: what the innermost size is preferably a multiple of, such as the lanes of a vector; 0 for no preference.
        """
    def scatter(self, loop: LoopRV, *, labels: Sequence[str] = ...) -> None:
        """Run only the iteration of a loop that has a term: the place that data says, where each term is added.

        For histograms, sums of what falls into each cell or segment and gradients of embeddings, which are written as sums
        over what equals each place, and for products with one-hot rows: one step instead of a comparison for each place.
        Every element is updated by the same terms in the same order. Threads need results of their own: `rfactor` a loop of
        the reduction first, and share that.

        Args:
            loop: a serial loop over a whole iteration variable, of elements or of terms.

        Requires:
            One block is inside, a reduction, whose terms have a condition `place == v`, for the variable `v` of the loop,
            plus or minus what does not depend on it. The other side may be anything that no loop inside changes. Loops of
            the reduction are around the loop, or it is one, unless the initial value is written by a block of its own. No
            loop around is vectorised, and none inside is parallel.

        Rewrite:
            for i in 4096:                              for i in 4096:
                for v in 256:                    ->         v = X[i]
                    N[v] += 1 if X[i] == v else 0           N[v] += 1
        """
    def set_scope(self, block: BlockRV, scope: str, *, labels: Sequence[str] = ...) -> None:
        """Set where the buffer that a block writes lives.

        Args:
            block: the block that writes the buffer.
            scope: "global"; "local", a workspace of each thread; or "register", vector registers.

        Requires:
            The buffer is intermediate: outputs are the caller's.

        Rewrite:
            temp C: f32[8, 16]                    ->     temp C: f32[8, 16] register
        """
    def skip_padding(self, block: BlockRV, dimensions: int, *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """Leave out the terms of a sum of products that read padding, which is zero.

        A zero times an infinity is no number, so what these terms are depends on the other factor. It does not depend on
        which of the elements have the same terms in the padding, as all of these read the same zeros: the sums of zero
        times that factor are the small blocks `BLOCK.zeros`, over all of a window's terms but those that decide what is
        padding, and `BLOCK.start`, over these. They are zeros where the factor is finite, and where it is a `const`
        argument they are computed ahead of calls. The sum starts from them instead of 0. Integers have no infinities: then
        there are no such blocks.

        Args:
            block: the sum, of an operand that is padded times another. The padding is a block of its own, or inlined.
            dimensions: how many of the operand's dimensions that have padding count, the outermost first. A condition on
                what an unrolled tile runs along is asked once for the tile where a loop over other terms is around it, and
                for each of its elements otherwise.

        Requires:
            The block's loops are untransformed, it sums from 0, and all of its terms are there. The padding is a constant 0
            where bounds on sums of iteration variables do not hold, each of one dimension.

        Rewrite:
            for i, k in grid(8, 3):                  for k in 3:
                C[i] += B[i + k] * K[k]      ->          C.zeros: Z[k] = K[k] * 0
                                                     for i, k in grid(8, 3):
                                                         C.start: S[i] += 0 if i + k >= 1 and i + k < 9 else Z[k]
                                                     for i, k in grid(8, 3):
                                                         C[i] += B[i + k] * K[k] if i + k >= 1 and i + k < 9 else 0
                                                             init S[i]
        """
    def split(self, loop: LoopRV, factors: Sequence[Int | int | None], *, labels: Sequence[str] = ...) -> list[LoopRV]:
        """Split a loop into a nest of several, outermost first.

        Where the factors' product exceeds the extent, a guard skips the iterations past the end.

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
        """Make the stride of a dimension a multiple of `factor` elements, plus `offset`.

        Rows whose stride is a power of two compete for a few cache sets; an offset of a cache line or a vector avoids these
        conflicts. The gaps are neither written nor read. The alignment applies to the final array, shrunk to the region
        used inside its loops; an array in vector registers has no strides.

        Args:
            block: the block that writes the buffer.
            axis: the dimension, 0 the outermost; counted in memory order where the buffer has a layout.
            factor: an integer or an integer random variable, in elements.
            offset: an integer or an integer random variable, in elements.

        Requires:
            The buffer is intermediate. The dimension is not the last one, which stays contiguous.

        Rewrite:
            temp C: f32[64, 64]                   ->     temp C: f32[64, 64]  aligned(0, 64, 16)
        """
    def store_at(self, block: BlockRV, loop: LoopRV | Literal["root", "inline"], *, labels: Sequence[str] = ...) -> None:
        """Keep what a block computes across iterations of a loop, so that each iteration computes only new elements.

        After compute_at, neighbouring iterations often need overlapping regions, and each computes its region in full. With
        the buffer's storage at an outer loop, the first iteration computes the whole region, and each later one only the
        new elements. Along the dimension that moves, the storage holds just the window that one iteration needs (Halide's
        `store_at`, with its sliding window and folded storage: Ragan-Kelley et al. 2013, section 4).

        Args:
            block: a producer that compute_at has put under a loop of its readers.
            loop: a loop around that one, or `root` for outside all loops.

        Requires:
            The loops between are serial, and each iteration moves the computed region along one dimension by a constant
            step, less than the region's extent. These loops cannot be changed afterwards.

        Rewrite:
            temp B: f32[66, 64]                          temp B: f32[66, 64]  at root, 3 of axis 0
            for y in 64:                                 for y in 64:
                for r, x in grid(3, 64):          ->         for r, x in grid(3, 64):
                    B[y + r, x] = ...                            B[y + r, x] = ...  if y < 1 or r >= 2
                ... B[y, x] + B[y + 1, x] + B[y + 2, x]      ... B[y, x] + B[y + 1, x] + B[y + 2, x]
        """
    def tensorize(self, loop: LoopRV, intrinsic: str, *, labels: Sequence[str] = ...) -> None:
        """Compute a nest of loops with a tensor intrinsic: an instruction that does all of it at once.

        The loops stay in the program and cannot be changed afterwards. Compiling for a target that lacks the instruction is
        an error.

        Args:
            loop: the outermost loop of the nest.
            intrinsic: its name, such as "dot_u8i8_vnni"; `metasched/schedule/intrinsics/` has a file for each.

        Requires:
            The nest computes what the intrinsic does, up to names and the order of products: the same loops with the same
            extents, in any order, and the same element types. The last axis of each of the intrinsic's operands is
            contiguous in memory; the others may have any stride, unless the intrinsic requires otherwise. No guard skips
            any of its iterations, and no loop around it is vectorised. Where the intrinsic flushes denormals to zero, the
            block has the annotation "flush_denormals".

        Rewrite:
            for k_0 in 16:                               for k_0 in 16:
                for j, k_1 in grid(16, 4):                   for j in 16:  @tensorize("dot_u8i8_vnni")
                    dot: C[j] += ...              ->             for k_1 in 4:
                                                                     dot: C[j] += ...
        """
    def transform_block_layout(self, block: BlockRV, index_map: str | Callable[..., object], *sizes: Int | int, labels: Sequence[str] = ...) -> list[LoopRV]:
        """Replace a block's iteration variables by the outputs of an index map. Returns the new loops.

        The block gets a nest of new serial loops, one for each new variable, spatial ones outermost. If variables that
        index the block's buffer change, its dimensions and its readers' indices change accordingly. A reduction that tiles
        do not divide evenly gets a guard.

        Sizes need not divide anything evenly. So with sizes the new loops have guards, the block and its buffer keep their
        variables and dimensions, and the buffer gets the layout of the new variables in memory.

        Args:
            block: the block.
            index_map: from the block's iteration variables in order to the new ones, "n, h, w, c -> n*56 + h, w, c", or a
                function of as many indices.
            sizes: the values of names that the text divides by, in the order in which they appear, integers or integer
                random variables: "i, j -> j//t, i, j%t". A function uses random variables as they are.

        Requires:
            The block's loops are untransformed, one for each variable and around nothing else, and no other block writes a
            part of its result. The map is a bijection, and does not mix spatial and reduction variables. If variables that
            index the buffer change, the buffer is intermediate, has no layout and no other writer, and tiles divide its
            dimensions evenly.

        Rewrite:
            for i, j in grid(8, 16):                     for i_j in 128:
                twice: B[i, j] = A[i, j] * 2      ->         twice: B[i_j] = A[i_j // 16, i_j % 16] * 2
            for i, j in grid(8, 16):                     for i, j in grid(8, 16):
                neg: C[i, j] = -B[i, j]                      neg: C[i, j] = -B[i*16 + j]
        """
    def transform_layout(self, block: BlockRV, index_map: str | Callable[..., object], *sizes: Int | int, labels: Sequence[str] = ...) -> None:
        """Set the memory layout of the buffer that a block writes: the map takes indices to positions in memory.

        The program still indexes the buffer as before; only the addresses change. Padding where a tile does not divide a
        dimension is neither written nor read. A second layout replaces the first.

        Args:
            block: the block that writes the buffer.
            index_map: from the buffer's indices to those in memory, outermost first: "i, j -> j//16, i, j%16", or a
                function, `lambda i, j: (j // 16, i, j % 16)`.
            sizes: the values of names that the text divides by, in the order in which they appear, integers or integer
                random variables: "i, j -> j//t, i, j%t". A function uses random variables as they are.

        Requires:
            The buffer is intermediate, as the layout of inputs and outputs is the caller's, and not stored at a loop. The
            map is one to one: its outputs are sums of indices and their quotients and remainders by numbers and sizes, and
            determine the indices.

        Rewrite:
            temp C: f32[8, 64]                    ->     temp C: f32[8, 64]  layout i, j -> j // 16, i, j % 16
        """
    def unannotate(self, target: LoopRV | BlockRV, key: str, *, labels: Sequence[str] = ...) -> None:
        """Remove an annotation from a loop or a block.

        Args:
            target: a loop or a block.
            key: the annotation's key, as for `annotate`.

        Requires:
            The target has the annotation.

        Rewrite:
            for i in 64:  @unroll_limit(16)       ->     for i in 64:
        """
    def unroll(self, loop: LoopRV, *, labels: Sequence[str] = ...) -> None:
        """Unroll a loop fully: its body is repeated for each iteration.

        To limit the size of the code instead, `annotate` a block or loop with "unroll_limit".

        Args:
            loop: a serial loop.

        Requires:
            Its extent is at most 512.

        Rewrite:
            for i in 4:                     for i in 4 unrolled:
                C[i] = A[i]          ->         C[i] = A[i]
        """
    def use_partial_maxima(self, sums: BlockRV, maxima: BlockRV, *, labels: Sequence[str] = ...) -> None:
        """Take the exponentials of partial sums relative to the maxima of the same terms, instead of the maximum of all.

        A softmax goes through a row for its maximum, and again for the sum of exponentials relative to it. Of partial
        results that rfactor makes of both, the sums then need no more than the maxima next to them, so that one pass over
        the row computes both; the last reduction scales each partial sum to the maximum of all. (Milakov and Gimelshein
        2018, "Online normalizer calculation for softmax", section 3; with weights, the sums of FlashAttention, Dao et al.
        2022, section 3.1.) A partial sum without a finite term is of zeros, as it would be relative to a finite maximum.
        Rounding errors are of the size of those before: they grow with `m - x`, which both steps make up together. Where
        other factors come near the largest number of their type, a part's sum may be beyond it.

        Args:
            sums: partial sums of terms with a factor `exp(x - m)`, or `exp((x - m) * scale)` of a positive scale, where `m`
                is the maximum of all; `exp2` as well. Other factors may be anything that does not read `m`.
            maxima: partial maxima of the same `x`, which reduce to `m`.

        Requires:
            Both reduce the same parts: the same loops, split in the same way. One sum reads the partial sums, and adds them
            up as they are. Maxima of a type of storage are cast as `x` is.

        Rewrite:
            for j_0, j_1 in grid(2, 8):                      for j_0, j_1 in grid(2, 8):
                top.rf: m_rf[j_0] max= X[j_0*8 + j_1]            top.rf: m_rf[j_0] max= X[j_0*8 + j_1]
            for j_0 in 2:                                    for j_0 in 2:
                top: m[0] max= m_rf[j_0]                         top: m[0] max= m_rf[j_0]
            for k_0, k_1 in grid(2, 8):                      for k_0, k_1 in grid(2, 8):
                sum.rf: s_rf[k_0] +=                 ->          sum.rf: s_rf[k_0] +=
                    exp(X[k_0*8 + k_1] - m[0])                       exp(X[k_0*8 + k_1] - max(m_rf[k_0], -3.4e+38))
            for k_0 in 2:                                    for k_0 in 2:
                sum: s[0] += s_rf[k_0]                           sum: s[0] += s_rf[k_0] * exp(m_rf[k_0] - m[0])
        """
    def vectorize(self, loop: LoopRV, *, lanes: Int | int, labels: Sequence[str] = ...) -> None:
        """Run a loop's iterations in vectors of `lanes`; the last vector is masked if the extent is not a multiple.

        The innermost loop of a reduction may be a reduction loop. Each lane then accumulates a partial result over all
        loops of the reduction, and the lanes are combined at the end, half with half. More lanes than a register holds give
        several independent accumulators. For `argmax` and `argmin`, each lane has a value and its position.

        Args:
            loop: a serial loop of any extent.
            lanes: elements in a vector, 1 to 64.

        Requires:
            A reduction may run along the loop only if the loop is directly around its block; otherwise every block inside
            writes different elements in each iteration. A sum or product of which several iterations compute an element, as
            after compute_at, has its loops over elements outside those of the reduction, then and in later steps. No loop
            around or inside it is vectorised or tensorised, and it has no annotation "prefetch".

        Rewrite:
            for j in 512:                   for j in 512 vectorized(16):
                C[j] = A[j]          ->         C[j] = A[j]
        """
    def winograd(self, block: BlockRV, tile: int, *, labels: Sequence[str] = ...) -> list[BlockRV]:
        """Compute a convolution in tiles of its result, from products of transformed tiles of its operands.

        A tile of m results of a window of r elements takes m + r - 1 products instead of m * r, along each of one or two
        axes (Winograd 1980; Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural Networks", sections 3 and 4).
        Their rounding errors are larger, so callers allow it by `allow={"winograd"}`. The matrices are those of the method
        of Cook and Toom at the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity, by exact arithmetic.

        The block becomes a batch of products, one for each of the (m + r - 1)^2 elements of a tile. The last pass over its
        operands are the blocks `BLOCK.X.winograd`, which depend on one operand each, so that the filter's is run ahead of
        calls where it is a `const` argument; the last pass over its products is `BLOCK.inverse`. With two axes, a pass
        along the first comes before each, `BLOCK.X.rows` and `BLOCK.rows`. Where the data has a condition, such as padding,
        or tiles go beyond it, the first step is a copy with zeros there, `BLOCK.X.pad`. Returns the last passes: over the
        filter, over the data, over the products; `get_producers` finds the others.

        Args:
            block: the convolution: a sum of products of two operands, of which one is read at `h + r` and the other at `r`,
                for a spatial variable `h` and a variable of the sum `r`. Of more than two such axes, the last two count.
            tile: m, at least 2. It is no random variable, as the steps depend on it; `choose` among some.

        Requires:
            The block's loops are untransformed, and it sums f32 or f64 from 0. Windows have 2 to 7 elements, and
            m + r - 1 is at most 8. Each operand has one read, whose index moves with the window in dimensions of its own.

        Rewrite:
            for h, r in grid(8, 3):                      for r_.. in 4:
                conv: Y[h] += X[h + r] * K[r]    ->          conv.K.winograd: U[t] = ... K ...
                                                         for h_.., t_.. in grid(4, 4):
                                                             conv.X.winograd: V[t, h] = ... X[2*h], X[2*h + 1] ...
                                                         for t, h in grid(4, 4):
                                                             conv: M[t, h] += V[t, h] * U[t]
                                                         for h_.. in 8:
                                                             conv.inverse: Y[h] = ... M[0, h//2], M[1, h//2] ...
        """
