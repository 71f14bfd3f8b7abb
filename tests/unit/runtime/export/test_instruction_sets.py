"""The instruction sets that exports ask for."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from metasched import target as target_module
from metasched.errors import KernelError
from metasched.graph.errors import NetworkError
from metasched.runtime.export import instruction_sets
from metasched.runtime.export.instruction_sets import cpu_flags
from metasched.schedule.tensor import intrinsics
from metasched.target import Target
from tests.support.targets import AVX2, AVX512, SAPPHIRE

NAMED, NEVER = instruction_sets._FLAGS.keys(), instruction_sets._NEVER_ASKED
# Linux does not say whether a CPU has them.
UNNAMED = {"avx10.2", "avx10.2-256", "avx10.2-512", "ccmp", "cf", "egpr", "ndd", "nf", "ppx", "push2pop2", "zu"}


def test_each_instruction_set_of_x86_is_asked_for_or_never_in_code_or_refused() -> None:
    known = {*target_module._X86.split(), *target_module._OTHER_VERSIONS.split()}
    assert known == NAMED | NEVER | UNNAMED
    assert not NAMED & NEVER


def test_what_tensor_instructions_need_is_asked_for() -> None:
    assert not frozenset().union(*(one.features for one in intrinsics().values())) - NAMED


def test_what_a_set_builds_on_is_asked_for_too() -> None:
    assert "f16c" not in AVX512.features
    assert {"pni", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f"} == set(cpu_flags(AVX512))


def test_names_are_the_kernels() -> None:
    more = {"gfni", "lzcnt", "bmi", "avx512vbmi2", "avx512fp16", "avxvnni", "aes", "clwb"}
    asked = set(cpu_flags(replace(SAPPHIRE, features=SAPPHIRE.features | more)))
    assert {"gfni", "abm", "bmi1", "avx512_vbmi2", "avx512_fp16", "avx_vnni", "amx_tile", "avx512_bf16"} <= asked
    assert not {"aes", "clwb"} & asked, "no code has them"


@pytest.mark.parametrize("error", [KernelError, NetworkError])
def test_a_set_that_no_kernel_names_is_refused(error: type[Exception]) -> None:
    far = replace(AVX2, features=AVX2.features | {"avx10.2", "of-tomorrow"})
    hint = 'make it for a target without: `target.without(["avx10.2", "of-tomorrow"])`'
    with pytest.raises(error, match=f"of `avx10.2` and `of-tomorrow`, and an export cannot(?s:.*){re.escape(hint)}"):
        cpu_flags(far, error)


def test_this_machine_s_exports_can_be_asked_for() -> None:
    assert cpu_flags(Target.detect())
