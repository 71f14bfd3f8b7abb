from __future__ import annotations

import pytest

import metasched as ms
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.roles import Roles, followers
from metasched.lang.instructions import HOLE, Ref


def roles(name: str) -> Roles:
    func = ms.operator(name).func
    return Roles.of(func, anchor_of(func))


CONV, EPILOGUE, SOFTMAX = roles("conv2d_nhwc"), roles("conv2d_bn_relu_nhwc"), roles("softmax")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("multi_level_tiling(conv)/n_conv", "multi_level_tiling({anchor})/{anchor$0}"),
        ("multi_level_tiling(conv)/fusion", "multi_level_tiling({anchor})/fusion"),
        ("vectorize(conv.K.read)/lanes", "vectorize({anchor}.{anchor#1}.read)/lanes"),
        ("compute_location(pad)/pad", "compute_location({anchor<0})/{anchor<0}"),
        ("vectorize(conv.Y.write)/lanes#2", "vectorize({writer})/lanes#2"),
        ("outer(pad)/inner(conv)/c_conv", "outer({anchor<0})/inner({anchor})/{anchor$6}"),
    ],
)
def test_addresses_and_back(address: str, said: str) -> None:
    assert CONV.general_address(address) == said
    assert next(CONV.own_texts(said)) == address


def test_a_chain_after_the_anchor_writes_in_place_of_a_copy() -> None:
    assert EPILOGUE.general_address("vectorize(relu)/lanes") == "vectorize({writer})/lanes"
    assert list(EPILOGUE.own_texts("vectorize({writer})/lanes")) == [
        "vectorize(relu)/lanes",
        "vectorize(conv.C.write)/lanes",
    ]


def test_decisions_name_loops_and_buffers() -> None:
    place = CONV.general_decision(Ref("n_conv_0_h_conv_0"))
    assert place == Ref("{anchor$0}_0_{anchor$1}_0")
    assert EPILOGUE.own_decision(place) == Ref("n_conv_0_h_conv_0")
    assert CONV.general_decision("K") == "{anchor#1}"
    assert CONV.own_decision("{anchor#1}") == "K"
    for same in ("consumer at level 1", Ref("root"), (HOLE, 4, 8), 16, True):
        assert CONV.general_decision(same) == same
        assert CONV.own_decision(same) == same


def test_what_a_program_lacks_has_no_name_there() -> None:
    assert list(SOFTMAX.own_texts("vectorize({anchor<0<1})/lanes")) == ["vectorize(maximum)/lanes"]
    assert list(CONV.own_texts("vectorize({anchor<0<1})/lanes")) == []
    assert CONV.own_decision(Ref("{anchor<0<1$0}_0")) is None
    assert CONV.own_decision("{anchor#7}") is None


def test_blocks_that_nothing_connects_are_numbered() -> None:
    text = "program two(A: f32[4, 4], B: f32[4]) -> (C: f32[4], D: f32[4]):\n"
    text += "    C[i] = sum[k](A[i, k])\n    D[i] = B[i] + 1\n"
    func = ms.parse_program(text).func
    assert Roles.of(func, anchor_of(func)).blocks["D"] == "other0"


def test_what_follows_an_anchor() -> None:
    alone = ms.parse_program(
        "program p(A: f32[8, 8], B: f32[8, 8]) -> C: f32[8, 8]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])"
    )
    text = "program p(A: f32[8, 8], B: f32[8, 8]) -> D: f32[8, 8]:\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n"
    followed = ms.parse_program(text + "    D[i, j] = max(C[i, j], 0)")
    said = [Roles.of(p.func, anchor_of(p.func)).follows for p in (alone, followed)]
    assert said == [False, True]


def test_loops_have_other_names_where_a_block_is_computed_at_a_place() -> None:
    """A name as `compute_at` gives it is one of the same loop."""
    sch = ms.Schedule(ms.operator("conv2d_nhwc"))
    sch.compute_at(sch.get_block("pad"), sch.get_loops(sch.get_block("conv"))[0])
    made = sch.describe(sch.get_block("pad")).loops[2]
    assert made in CONV.own["anchor<0$1"][1:]
    assert CONV.general_address(f"multi_level_tiling(pad)/{made}") == "multi_level_tiling({anchor<0})/{anchor<0$1}"


def test_followers_read_in_place() -> None:
    text = """
program chain(A: f32[8, 8], B: f32[8, 8], c: f32[8]) -> Y: f32[8, 8]:
    product: C[i, j] = sum[k](A[i, k] * B[k, j])
    turned: D[j, i] = C[i, j] + c[j]
    clipped: E[i, j] = max(D[i, j], 0)
    {last}
"""
    ends = {
        "last: Y[i, j] = E[i, j] * 2": ["turned", "clipped", "last"],
        "shifted: Y[i, j] = E[i - 1, j] if i >= 1 else 0": ["turned", "clipped"],
        "summed: Y[i, j] = sum[k](E[i, k] * B[k, j])": ["turned", "clipped"],
        "twice: Y[i, j] = E[i, j] * C[i, j]": [],
    }
    for last, expected in ends.items():
        assert list(followers(ms.parse_program(text.format(last=last)).func, "product")) == expected
