"""The best guess: an expert's trace where there is one for the program, the shape and the machine, else the model's."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import metasched as ms
from metasched import operators
from metasched.compiler.lower import lower
from metasched.cost.expectation import Limit
from metasched.measure.checking.check import mismatch, prepare
from metasched.measure.checking.inputs import given_inputs
from metasched.runtime.kernel import Origin
from metasched.search.guesses.guess import Guess
from metasched.search.guesses.guess import guess as best_guess
from tests.support.targets import ALDER, AVX2, AVX512

FEATURES = frozenset(
    {"avx2", "avx512f", "avx512vl", "avx512bw", "avx512dq", "fma", "avx512vnni", "amx-tile", "amx-int8"}
)
GUESSING = "metasched.search.guesses.guess._Guessing"
# Experts' traces and the model alone, whatever was found for other sizes.
guess = partial(best_guess, knowledge="none")
SERVER = ms.Target("sapphirerapids", FEATURES, 2, 32 << 10, 1 << 20, 32 << 20)
BYTES = {"T": "u8", "U": "i8", "ACC": "i32"}


def agrees(kernel: ms.Kernel) -> None:
    func = kernel.program.func
    cases = prepare(func, given_inputs(func, None, seed=0), seed=0)
    for case in (cases.integers, cases.random):
        result = kernel(*(a.item() if a.shape == () else a for a in case.inputs))
        assert mismatch(np.asarray(result), case.expected[0], case.tolerance[0]) is None


@pytest.mark.parametrize(
    ("operator", "params"),
    [
        ("matmul_nn", {"M": 30, "N": 50, "K": 20}),
        ("matmul_nn", {"M": 8, "N": 32, "K": 16, "T": "i32"}),
        ("conv2d_nhwc", {"H": 9, "W": 13, "CI": 7, "CO": 16, "S": 2}),
        ("conv2d_nhwc", {"H": 6, "W": 5, "CI": 8, "CO": 12, "R": 1, "P": 0}),
        ("conv1d_nlc", {"L": 31, "CI": 5, "CO": 16}),
        ("depthwise_conv2d_nhwc", {"H": 9, "W": 11, "C": 13}),
        ("softmax", {"M": 7, "N": 101}),
        ("layer_norm", {"M": 5, "N": 67}),
        ("norm", {"BATCH": 2, "M": 9, "N": 35}),
        ("scale_shift_add_relu", {"M": 9, "N": 61}),
    ],
)
def test_an_operator_takes_an_experts_trace(operator: str, params: dict[str, Any]) -> None:
    kernel = ms.compile(operators.load(operator, **params), knowledge="none")
    assert kernel.origin is Origin.GUESS
    assert isinstance(kernel.report, Guess)
    assert kernel.report.expert is not None
    assert kernel.report.expert.startswith(f"{operator}.")
    assert kernel.trace == kernel.report.trace == ms.guess(kernel.program, knowledge="none")
    agrees(kernel)


def test_under_any_names() -> None:
    f = ms.kernel("Z[a, b] = sum[q](Y[q, b] * X[a, q])")
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((48, 32), (32, 64)))
    kernel = f.kernel_for(y, x)
    assert isinstance(kernel.report, Guess)
    assert str(kernel.report.expert).startswith("matmul_nn.")
    np.testing.assert_array_equal(f(y, x), x @ y)


def test_another_program_gets_what_the_model_likes() -> None:
    text = "program f[N=16](A: f32[N, N]) -> B: f32[N, N]:\n    B[i, j] = A[j, i] * A[i, j]\n"
    program = ms.parse_program(text)
    kernel = ms.compile(program, knowledge="none")
    assert isinstance(kernel.report, Guess)
    assert (kernel.report.trace, kernel.report.expert) == (kernel.trace, None)
    chosen, why, said = str(kernel.report).splitlines()
    assert chosen == "a guess: by the cost model"
    assert why.startswith("why: no expert wrote a trace for what it computes; ")
    assert said.startswith("expected, not measured: ")
    assert "bound by" in said
    agrees(kernel)


def test_it_says_what_it_expects_and_why() -> None:
    found = guess(operators.load("matmul_nn", M=1024, N=1024, K=1024), SERVER)
    chosen, why, said, *_ = str(found).splitlines()
    assert chosen == "a guess: the expert trace matmul_nn.goto"
    assert why.startswith("why: it has the shortest estimate of ")
    assert found.expected is not None
    assert found.expected.limit is Limit.OPERATIONS
    assert f"{found.expected.cycles / 1e6:.3g} million cycles" in said
    assert "bound by compute" in said
    large = guess(operators.load("scale_shift_add_relu", M=8192, N=4096), SERVER)
    assert "bound by memory" in str(large)
    rules = guess(operators.load("matmul_nn", M=64, N=64, K=64), SERVER, "cpu")
    assert rules.why.startswith("the rules were given; ")


@pytest.mark.parametrize("threads", [1, 2])
def test_a_batch_takes_the_traces_of_an_element(threads: int) -> None:
    """A product for each head takes what is best for a product of this size, with the batch shared out to threads."""
    target = SERVER.with_threads(threads)
    found = guess(operators.load("batch_matmul_nn", BATCH=4, M=512, N=512, K=512), target)
    assert found.expert == "matmul_nn.goto"
    assert found.carried_over == "for each element of a batch"
    assert "the expert trace matmul_nn.goto, for each element of a batch" in str(found)
    assert ("parallel(batch_b)" in str(found.trace)) == (threads > 1)


def test_scores_of_attention_take_the_traces_of_a_product() -> None:
    text = """
program scores[H=8, L=512, D=64](Q: f32[L, H, D], K: f32[L, H, D]) -> S: f32[H, L, L]:
    S[h, i, j] = sum[d](Q[i, h, d] * K[j, h, d])"""
    found = guess(ms.parse_program(text), SERVER)
    assert found.expert is not None
    assert found.expert.startswith("matmul_nn.")
    assert str(found).splitlines()[0].endswith(", for each element of a batch, with K transposed")
    agrees(ms.compile(ms.parse_program(text, H=3, L=70, D=20), knowledge="none"))


def test_the_spaces_favourite_where_a_trace_is_far_from_its_shape() -> None:
    """The trace for transposed convolutions keeps rows of few columns in registers."""
    shape = {"R": 4, "S": 2, "P": 1}
    found = guess(operators.load("conv2d_transpose_nhwc", H=16, W=16, CI=128, CO=64, **shape), SERVER)
    assert found.expert is None
    assert "of the time of the expert trace conv2d_transpose_nhwc." in found.why
    beaten = found.why.rpartition(" ")[2]
    assert dict(found.passed_over)[beaten].startswith("the estimate is ")
    agrees(ms.compile(operators.load("conv2d_transpose_nhwc", H=5, W=9, CI=8, CO=16, **shape), knowledge="none"))


def test_the_space_is_not_looked_at_where_it_has_nothing_to_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: object) -> None:
        raise AssertionError("the space was looked at")

    monkeypatch.setattr(f"{GUESSING}._favourite", looked)
    near_the_peak = operators.load("matmul_nn", M=1024, N=1024, K=1024)
    small = operators.load("conv2d_nhwc", H=4, W=4, CI=32, CO=32, R=3, G=8)
    near_the_bandwidth = operators.load("scale_shift_add_relu", M=4096, N=4096)
    bytes_by_instructions = operators.load("matmul_nn", M=64, N=64, K=64, **BYTES)
    for program in (near_the_peak, small, near_the_bandwidth, bytes_by_instructions):
        assert guess(program, SERVER).expert is not None


def test_the_space_is_looked_at_for_short_calls_that_a_faster_instruction_would_shorten() -> None:
    heads = operators.load("batch_matmul_nn", BATCH=12, M=128, N=64, K=128, **BYTES)
    trace = str(guess(heads, SERVER).trace)
    assert "tile_u8i8_amx" in trace
    assert "dot_u8i8_vnni" in str(guess(heads, SERVER.without(["amx-tile"])).trace)


def test_a_favourite_that_is_no_clear_gain_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best of ten thousand by an estimate that errs is mostly lucky."""
    program = operators.load("softmax", M=1024, N=1024)
    taken = guess(program, SERVER)
    assert taken.expected is not None
    for share, expert in ((0.9, taken.expert), (0.3, None)):
        monkeypatch.setattr(f"{GUESSING}._leaves_room", lambda *_: True)
        monkeypatch.setattr(f"{GUESSING}._favourite", lambda *_: taken)
        monkeypatch.setattr(f"{GUESSING}._ratio", lambda *_, share=share: share)
        found = guess(program, SERVER)
        assert found.expert == expert
        assert f"{share:.2f}" in found.why


@pytest.mark.parametrize(
    ("program", "rules"),
    [
        (operators.load("softmax", M=64, N=64), None),
        (operators.load("matmul_nn", M=64, N=64, K=64), None),
        (operators.load("matmul_nn", M=32, N=32, K=32), "cpu"),
    ],
)
def test_a_guess_has_what_its_trace_makes_of_the_program(program: ms.Program, rules: str | None) -> None:
    """It is compiled without the trace being replayed."""
    found = guess(program, SERVER, rules)
    replayed = found.trace.apply_to(program)
    assert replayed.func == found.func
    assert str(replayed.trace) == str(found.trace)


def test_a_trace_whose_sums_do_not_fit_into_registers_gives_way() -> None:
    """64 lanes of values and positions are 16 registers of AVX2; a call is short, and would not be worth looking."""
    program = operators.load("argmax", M=20, N=333)
    assert guess(program, SERVER).expert == "argmax.lanes"
    found = guess(program, AVX2)
    assert found.expert is None
    assert lower(found.trace.apply_to(program).func, AVX2).warnings == ()


def test_a_small_gain_suffices_where_sums_do_not_fit_into_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the estimate says of a trace with sums in memory is too good already."""
    program = operators.load("argmax", M=20, N=333)
    monkeypatch.setattr(f"{GUESSING}._leaves_room", lambda *_: True)
    for share, experts in ((0.95, ["argmax.lanes", None]), (1.05, ["argmax.lanes", "argmax.lanes"])):
        monkeypatch.setattr(f"{GUESSING}._ratio", lambda *_, share=share: share)
        assert [guess(program, target).expert for target in (SERVER, AVX2)] == experts


def test_rules_that_are_named_decide() -> None:
    program = operators.load("matmul_nn", M=32, N=32, K=32)
    assert guess(program, SERVER, "cpu").expert is None
    assert "multi_level_tiling" in str(guess(program, SERVER, "cpu").trace)


def taken(target: ms.Target, **params: Any) -> str | None:
    return guess(operators.load("matmul_nn", M=256, N=256, K=256, **params), target).expert


def test_instructions_that_do_most_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{GUESSING}._leaves_room", lambda *_: False)
    assert taken(SERVER, **BYTES) == "matmul_nn.amx_u8i8"


def test_what_the_machine_lacks_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    program = operators.load("matmul_nn", M=256, N=256, K=256, **BYTES)
    monkeypatch.setattr(f"{GUESSING}._leaves_room", lambda *_: False)
    found = guess(program, SERVER.without({"amx-int8", "amx-tile"}))
    assert found.expert is not None
    assert found.expert.startswith("matmul_nn.vnni")
    assert dict(found.passed_over)["matmul_nn.amx_u8i8"] == "target lacks amx-int8"
    found = guess(program, SERVER.without({"amx-int8", "amx-tile", "avx512vnni"}))
    assert found.expert is None
    assert found.counts()["target lacks avx512vnni"] >= 1
    assert "not matmul_nn.amx_u8i8: target lacks amx-int8" in str(found)


def test_elements_of_another_size_are_another_matter() -> None:
    found = guess(operators.load("matmul_nn", M=32, N=32, K=32, T="i16"), SERVER)
    assert found.expert is None
    assert dict(found.passed_over)["matmul_nn.small"] == "it was written for elements of f32, not i16"


def test_what_nobody_asked_for_is_left_out() -> None:
    """Traces may allow other results, or store past caches that hold it all."""
    found = guess(operators.load("softmax", M=1000, N=64), SERVER)
    assert found.expert is not None
    assert "fastmath" in str(operators.expert(found.expert).trace)
    assert "fastmath" not in str(found.trace)
    small, large = (guess(operators.load("scale_shift_add_relu", M=m, N=4096), SERVER) for m in (64, 4096))
    assert "non_temporal" not in str(small.trace)
    assert ("non_temporal" in str(large.trace)) == (large.expert == "scale_shift_add_relu.streamed")


def test_a_favourite_that_cannot_be_built_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    program = ms.parse_program("program f[N=16](A: f32[N, N]) -> B: f32[N, N]:\n    B[i, j] = A[j, i] * A[i, j]\n")
    usual = guess(program, SERVER)
    obstacles = iter(["unroll too large"])
    monkeypatch.setattr("metasched.search.guesses.guess.obstacle_to", lambda *_: next(obstacles, None))
    other = guess(program, SERVER)
    assert other.trace != usual.trace
    assert other.counts() == {"unroll too large": 1}
    assert "not what the model likes best: unroll too large" in str(other)
    monkeypatch.setattr("metasched.search.guesses.guess.obstacle_to", lambda *_: "unroll too large")
    with pytest.raises(ms.NoRecord, match=r"that the model likes best, none can be run: \d+ times unroll too large"):
        guess(program, SERVER)


def test_a_favourite_that_a_replay_refuses_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of a space are looser than those of a replay where a region depends on quotients of sampled sizes."""
    program = ms.parse_program("program f[N=16](A: f32[N, N]) -> B: f32[N, N]:\n    B[i, j] = A[j, i] * A[i, j]\n")
    usual = guess(program, SERVER)
    refused = ms.parse_trace("""trace 1 of f[N=16]:
    B = get_block("B")
    i, j = get_loops(B)
    t0, t1 ~ sample_tile(i, innermost=8) @ "i" := [_, 32]
""")
    monkeypatch.setattr("metasched.search.guesses.guess.favourites", lambda *_: iter([refused, usual.trace]))
    other = guess(program, SERVER)
    assert other.trace == usual.trace
    (reason,) = other.counts()
    assert reason.startswith('sample_tile: the decision [_, 32] at "i" is not in the support')


def test_there_is_a_guess_where_nothing_runs_that_the_model_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its favourites may be of one kind, such as tiles that are too large to be unrolled: draws are not."""
    program = ms.parse_program("program f[N=16](A: f32[N, N]) -> B: f32[N, N]:\n    B[i, j] = A[j, i] * A[i, j]\n")
    obstacles = iter(["unroll too large"] * 20)
    monkeypatch.setattr("metasched.search.guesses.guess.obstacle_to", lambda *_: next(obstacles, None))
    other = guess(program, SERVER)
    assert other.counts() == {"unroll too large": 20}
    x = np.random.default_rng(0).random((16, 16), np.float32)
    np.testing.assert_array_equal(ms.compile(program, trace=other.trace)(x), x.T * x)


def test_three_channels_are_one_vector() -> None:
    program = ms.parse_program("""
program depthwise[H=112, W=112, C=3](X: f32[H + 2, W + 2, C], K: f32[3, 3, C]) -> Y: f32[H, W, C]:
    Y[h, w, c] = sum[r, s](X[h + r, w + s, c] * K[r, s, c])""")
    found = guess(program, SERVER)
    assert found.expert is None
    assert '@ "multi_level_tiling(Y)/c" := [_, 1, 1, 3]' in str(found.trace)


@pytest.mark.parametrize(("size", "threads"), [((127, 33, 50), False), ((512, 512, 512), True)])
def test_threads_only_where_they_pay(size: tuple[int, int, int], threads: bool) -> None:
    m, n, k = size
    f = ms.kernel("C[i, j] = sum[k](A[i, k] * B[k, j])", target=SERVER)
    program = f.program(np.ones((m, k), np.float32), np.ones((k, n), np.float32))
    assert ("parallel(" in str(guess(program, SERVER).trace)) == threads
    assert "parallel(" not in str(guess(program, SERVER.with_threads(1)).trace)


def test_without_threads_nothing_shares_a_region() -> None:
    """A trace whose nests share a region is one without threads as well, where these do not pay. Where they do, what
    the model likes is as good.
    """
    small, large = (guess(operators.load("softmax", M=1, N=n), SERVER) for n in (512, 1 << 20))
    assert dict(small.passed_over)["softmax.few_rows"].startswith("the estimate is "), "it was tried, without threads"
    assert "parallel" not in str(small.trace)
    assert "parallel(" in str(large.trace)


def test_it_is_the_same_every_time() -> None:
    program = operators.load("matmul_nn", M=96, N=80, K=64)
    assert guess(program, SERVER) == guess(program, SERVER)


@pytest.mark.parametrize(
    ("size", "dtype", "variant"),
    [(128, "f32", "small"), (127, "f32", "odd_columns"), (1024, "f32", "goto"), (1024, "f64", "goto_f64")],
)
def test_the_trace_for_a_size(size: int, dtype: str, variant: str) -> None:
    program = operators.load("matmul_nn", M=size, N=size, K=size, T=dtype)
    assert guess(program, SERVER).expert == f"matmul_nn.{variant}"


def test_weights_that_are_packed_once_cost_a_call_nothing() -> None:
    program = operators.load("dense_bias_relu", M=4, N=256, K=256)
    found = guess(program, ms.Target("sapphirerapids", FEATURES, 1, 48 << 10, 2 << 20, 32 << 20))
    assert found.expert == "dense_bias_relu.weights"
    assert found.expected is not None
    assert found.expected.prologue_cycles > 0
    assert "once for constant arguments" in str(found)
    changing = ms.parse_program(str(program).replace("const ", ""), M=4, N=256, K=256)
    assert guess(changing, SERVER.with_threads(1)).expert == "dense_bias_relu.from_bias"


def test_a_copy_that_does_not_pay_is_left_out() -> None:
    """Two rows read each weight twice: a copy, which pays where a neighbour has many rows, takes longer than that."""
    found = best_guess(ms.operator("matmul_nn", M=2, N=4096, K=4096), AVX512)
    assert found.neighbour is not None
    assert found.trace.decisions["packing(C)/packed"] == "none"


BLOCK = """
program block(
    A: f32[8, 112, 112, 16], const B: f32[16, 96], const D: f32[3, 3, 96], const E: f32[96, 24]
) -> Y: f32[8, 56, 56, 24]:
    P: f32[8, 114, 114, 96]
    wide: X[n, h, w, c] = sum[r](A[n, h, w, r] * B[r, c])
    P[n, h, w, c] = max(X[n, h - 1, w - 1, c], 0.0) if h >= 1 and h < 113 and w >= 1 and w < 113 else 0
    apart: D2[n, h < 56, w < 56, c] = sum[r, s](P[n, 2*h + r, 2*w + s, c] * D[r, s, c])
    positive: R[n, h, w, c] = max(D2[n, h, w, c], 0.0)
    narrow: Y[n, h, w, o] = sum[c](R[n, h, w, c] * E[c, o])
"""


def test_what_is_large_between_reductions_is_guessed_in_strips_though_neighbours_were_one_reduction() -> None:
    found = best_guess(ms.parse_program(BLOCK), AVX512)
    assert found.neighbour is not None
    assert found.trace.decisions["strips(narrow)/strips"] == "strips"


DEPTHWISE = """
program depthwise(A: u8[1, 28, 28, 192], const B: i8[3, 3, 192], const C: f32[192]) -> Y: u8[1, 28, 28, 192]:
    P: u8[1, 30, 30, 192]
    T: i32[1, 28, 28, 192]
    P[n, h, w, o] = A[n, h - 1, w - 1, o] if h >= 1 and h < 29 and w >= 1 and w < 29 else 0
    T[n, h, w, o] = sum[r < 3, s < 3](i32(P[n, h + r, w + s, o]) * i32(B[r, s, o]))
    Y[n, h, w, o] = u8(min(max(rint(f32(T[n, h, w, o]) * C[o]), 0.0), 255.0))
"""
# The best of the space is expected to take half of the time of what was found for a near size.
DEPTHWISE_OF_EVERY_SECOND = """
program depthwise(A: u8[1, 112, 112, 96], const B: i8[3, 3, 96], const C: f32[96]) -> Y: u8[1, 56, 56, 96]:
    P: u8[1, 114, 114, 96]
    T: i32[1, 56, 56, 96]
    P[n, h, w, o] = A[n, h - 1, w - 1, o] if h >= 1 and h < 113 and w >= 1 and w < 113 else 0
    T[n, h, w, o] = sum[r < 3, s < 3](i32(P[n, 2 * h + r, 2 * w + s, o]) * i32(B[r, s, o]))
    Y[n, h, w, o] = u8(min(max(rint(f32(T[n, h, w, o]) * C[o]), 0.0), 255.0))
"""
LAYER = """
program layer(A: u8[576, 48], const B: i8[48, 256], const C: u8[], const D: f32[256]) -> Y: u8[576, 256]:
    Z: i32[256]
    T: i32[576, 256]
    Z[o] = sum[k < 48](i32(B[k, o]) * i32(C[]))
    T[i, o] = sum[k < 48](i32(A[i, k]) * i32(B[k, o]))
    Y[i, o] = u8(min(max(rint(f32(T[i, o] - Z[o]) * D[o]), 0.0), 255.0))
"""
BYTE_SERVER = ms.Target("znver4", FEATURES - {"amx-tile", "amx-int8"}, 1, 32 << 10, 1 << 20, 32 << 20)


@pytest.mark.parametrize("text", [DEPTHWISE, DEPTHWISE_OF_EVERY_SECOND, LAYER])
def test_where_a_neighbour_is_near_nothing_else_is_looked_at(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the space, nor what the neighbour decided without one of its choices."""

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(f"{GUESSING}._favourite", fail)
    found = best_guess(ms.parse_program(text), BYTE_SERVER)
    assert found.neighbour is not None
    carried = (found.neighbour, *found.others)
    assert any(one.is_near for one in carried)
    tried = [why for one in carried for _, why in one.dropped]
    assert not any("beside the main statement" in why for why in tried)


@pytest.mark.parametrize(("features", "vectors"), [(set(), False), ({"avx512vnni"}, True)])
def test_what_was_found_with_vnni_is_no_guess_where_there_is_none(features: set[str], vectors: bool) -> None:
    target = replace(BYTE_SERVER, features=(BYTE_SERVER.features - {"avx512vnni"}) | features)
    found = best_guess(ms.parse_program(LAYER), target)
    assert ("dot_u8i8_vnni" in str(found.trace)) is vectors


@pytest.mark.parametrize("program", [ms.parse_program(LAYER), operators.load("matmul_nn", M=64, N=96, K=128, **BYTES)])
def test_vnni_without_avx_512_is_guessed_though_neighbours_had_none(program: ms.Program) -> None:
    assert '"dot_u8i8_avxvnni")\n' in str(best_guess(program, ALDER).trace)  # it is used, and not just offered
