from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import pytest

from metasched import target as target_module
from metasched.dtypes import DType
from metasched.target import Target, TargetError
from tests.support.targets import pretend_lacking

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
        (str(SMALL).replace("avx2", "avx3"), "not a target: there is no instruction set `avx3`\n  hint: did you mean "),
    ],
)
def test_bad_text(text: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.parse(text)


@pytest.mark.parametrize("given", ["f32", 32, None])
def test_what_is_no_element_type_has_no_lanes(given: Any) -> None:
    with pytest.raises(
        TargetError, match=rf"`dtype` is {given!r}, not a DType\n  hint: make one by metasched[.]dtypes"
    ):
        SMALL.lanes(given)


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
        ("amx-bf", "did you mean `amx-bf16`"),
        ("AVX512F", "did you mean `avx512f`"),
        ("avx512_vnni", "did you mean `avx512vnni`"),
        ("", "names are LLVM's, such as avx512f, avx512vnni, amx-bf16"),
    ],
)
def test_a_name_that_no_cpu_knows(name: str, hint: str) -> None:
    with pytest.raises(TargetError, match=re.escape(f"there is no instruction set `{name}`\n  hint: {hint}")):
        SMALL.has(name)


def test_what_another_target_s_code_needs_and_this_one_lacks() -> None:
    assert SMALL.lacking(replace(SMALL, features=SMALL.features | {"avx512f", "amx-tile"})) == ("amx-tile", "avx512f")
    assert SMALL.lacking(SMALL.without(["avx2"])) == ()


def test_what_of_a_target_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    far = pretend_lacking(monkeypatch, "sse4.2")
    assert far.runnable_here() == Target.detect(far.threads) != far
    less = far.without(["ssse3"])
    assert less.runnable_here() is less


def test_what_this_machine_has_is_known() -> None:
    target = Target.detect()
    assert all(target.has(feature) for feature in target.features)


def test_features_left_out_are_switched_off() -> None:
    features = SMALL.llvm_features().split(",")
    assert "+avx2" in features
    assert ("-avx512f" in features) is ("avx512f" in llvm.get_host_cpu_features())
    assert "+avx512f" not in features
    assert "-fma" in SMALL.without(["fma"]).llvm_features().split(",")


def test_what_nobody_lists_is_not_switched_off() -> None:
    """LLVM would end the process without `64bit`, and take AVX away with SSE."""
    features = SMALL.llvm_features().split(",")
    assert not {"-64bit", "-sse2", "-sse4.2", "-ssse3"} & set(features)
    plain = Target("x", frozenset(), 1, 1, 1, 1).llvm_features().split(",")
    assert "-64bit" not in plain
    assert ("-sse4.1" in plain) is ("sse4.1" in llvm.get_host_cpu_features())


@pytest.mark.parametrize(
    ("feature", "brings"),
    [("avx512bf16", "avx512f"), ("avx512vnni", "avx2"), ("amx-int8", "amx-tile"), ("avx512vl", "f16c"), ("fma", "avx")],
)
def test_what_an_instruction_set_builds_on_is_not_switched_off(feature: str, brings: str) -> None:
    """LLVM would end the process at the first of its instructions."""
    features = Target("x", frozenset({feature}), 1, 1, 1, 1).llvm_features().split(",")
    assert f"+{feature}" in features
    assert f"-{brings}" not in features


def test_what_every_cpu_has_is_there_also_where_llvm_does_not_know_the_name() -> None:
    features = Target("of-tomorrow", frozenset(), 1, 1, 1, 1).llvm_features().split(",")
    assert ("+64bit" in features) == ("64bit" in llvm.get_host_cpu_features())


def test_code_of_one_maker_s_cpus_has_no_set_that_only_they_have() -> None:
    zen = Target("znver4", frozenset({"avx512f", "sse4a"}), 1, 1, 1, 1)
    assert "sse4a" not in zen.code_features()
    assert "+sse4a" not in zen.llvm_features().split(",")
    bulldozer = Target("bdver2", frozenset({"fma4", "sse4a"}), 1, 1, 1, 1)
    assert "sse4a" in bulldozer.code_features()
    assert "-sse4a" not in bulldozer.llvm_features().split(","), "FMA4 goes with it"


def test_what_builds_on_an_instruction_set_goes_with_it() -> None:
    wide = Target("x", frozenset({"avx2", "avx512f", "avx512bw", "avx512bf16", "amx-tile", "amx-bf16"}), 1, 1, 1, 1)
    assert wide.without(["avx512f"]).features == {"avx2", "amx-tile", "amx-bf16"}
    assert wide.without(["amx-tile"]).features == {"avx2", "avx512f", "avx512bw", "avx512bf16"}


def test_names_in_the_table_of_grounds_are_llvm_s() -> None:
    ours = {name for pair in target_module._BUILDS_ON.items() for name in (pair[0], *pair[1])}
    assert ours <= target_module._FEATURES


def test_a_machine_that_hides_an_instruction_set_has_none_that_build_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {"avx": True, "avx2": True, "fma": True, "f16c": True, "avx512f": False, "avx512bf16": True, "crc32": True}
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: seen)
    _, features = target_module._host.__wrapped__()
    assert features == {"avx", "avx2", "fma", "f16c", "crc32"}


def test_a_machine_whose_system_refuses_tile_registers_has_no_amx(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made for it runs: guesses, candidates of a search, what was kept while the system gave them."""
    for cpu, given, found, refused in (
        (True, True, {"avx2", "amx-tile", "amx-int8"}, False),
        (True, False, {"avx2"}, True),
        (False, False, {"avx2"}, False),
    ):
        seen = {"avx2": True, "amx-tile": cpu, "amx-int8": cpu}
        monkeypatch.setattr(llvm, "get_host_cpu_features", lambda seen=seen: seen)
        monkeypatch.setattr(target_module, "tiles_are_given", lambda given=given: given)
        assert target_module._host.__wrapped__()[1] == found
        assert target_module.tiles_are_refused() is refused


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


def test_the_bytes_of_a_cache_line_are_said_once() -> None:
    files = Path(target_module.__file__).parent.rglob("*.py")
    found = [path.name for path in files if re.search(r"^\w*(LINE|ALIGN)\w* = 64$", path.read_text(), re.MULTILINE)]
    assert found == ["target.py"]
