from __future__ import annotations

import re

import pytest

from metasched.dtypes import DType
from metasched.target import Target, TargetError

SMALL = Target("haswell", frozenset({"avx", "avx2", "fma"}), 4, 32768, 262144, 8388608)


TEXT = "name=a threads=1 l1=1 l2=1 l3=1 cacheline=64 features="


def test_detected_target_describes_the_machine() -> None:
    target = Target.detect()
    assert target.threads >= 1
    assert 0 < target.l1 < target.l2 < target.l3
    assert target == Target.detect()
    assert hash(target) == hash(Target.detect())


def test_threads_may_be_given() -> None:
    assert Target.detect(threads=3).threads == 3


@pytest.mark.parametrize("target", [SMALL, Target.detect(), Target("x", frozenset(), 1, 1, 1, 1)])
def test_text_round_trip(target: Target) -> None:
    assert Target.parse(str(target)) == target


def test_text_is_sorted() -> None:
    assert str(SMALL) == ("name=haswell threads=4 l1=32768 l2=262144 l3=8388608 cacheline=64 features=avx,avx2,fma")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "`name` is missing"),
        (str(SMALL).replace("l2=262144 ", ""), "`l2` is missing"),
        (str(SMALL) + " colour=red", "`colour` is not a field"),
        (str(SMALL).replace("threads=4", "threads=four"), "`threads` is a positive integer, not `four`"),
        (str(SMALL).replace("threads=4", "threads=0"), "`threads` is a positive integer"),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.parse(text)


def test_vector_registers() -> None:
    assert (SMALL.vector_bits, SMALL.registers, SMALL.lanes(DType.F32), SMALL.lanes(DType.F64)) == (256, 16, 8, 4)
    wide = Target("x", frozenset({"avx", "avx512f"}), 1, 1, 1, 1)
    assert (wide.vector_bits, wide.registers, wide.lanes(DType.F32), wide.lanes(DType.I8)) == (512, 32, 16, 64)
    assert Target("x", frozenset(), 1, 1, 1, 1).vector_bits == 128


def test_it_is_asked_for_instruction_sets_by_name() -> None:
    assert SMALL.has("avx2")
    assert not SMALL.has("amx-bf16")
    assert not SMALL.has("sve2"), "of another architecture"
    assert Target("x", frozenset({"of-tomorrow"}), 1, 1, 1, 1).has("of-tomorrow")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("amx-bf", "did you mean amx-bf16"),
        ("AVX512F", "did you mean avx512f"),
        ("avx512_vnni", "did you mean avx512vnni"),
        ("", "names are LLVM's, such as avx512f, avx512vnni, amx-bf16"),
    ],
)
def test_a_name_that_no_cpu_knows(name: str, hint: str) -> None:
    with pytest.raises(TargetError, match=re.escape(f"there is no instruction set `{name}`\n  hint: {hint}")):
        SMALL.has(name)


def test_what_this_machine_has_is_known() -> None:
    target = Target.detect()
    assert all(target.has(feature) for feature in target.features)


def test_features_left_out_are_switched_off() -> None:
    features = SMALL.llvm_features().split(",")
    assert "+avx2" in features
    assert "-avx512f" in features or "avx512f" not in str(features)
    assert "-fma" in SMALL.without(["fma"]).llvm_features().split(",")


def test_what_nobody_lists_is_not_switched_off() -> None:
    """LLVM would end the process without `64bit`, and take AVX away with SSE."""
    features = SMALL.llvm_features().split(",")
    assert not {"-64bit", "-sse2", "-sse4.2", "-ssse3"} & set(features)
    plain = Target("x", frozenset(), 1, 1, 1, 1).llvm_features().split(",")
    assert "-64bit" not in plain
    assert "-sse4.1" in plain or "sse4.1" not in str(plain)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" * 100_000, "`name` is missing"),
        ("name=a " * 20_000, "`threads` is missing"),
        (f"{TEXT} " * 2, "a field is there twice"),
        (TEXT.replace("l1=1", "l1=" + "9" * 100_000), f"`l1` is a positive integer, not `{'9' * 40}...`"),
        (TEXT.replace("l1=1", "l1=²"), "`l1` is a positive integer, not `²`"),
    ],
)
def test_long_text_is_refused_at_once(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=re.escape(f"not a target: {message}")):
        Target.parse(text)
