from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import metasched as ms
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.distill import describe_trace, merge_entries
from metasched.knowledge.entries import Cpu, Entry, KnowledgeError, print_entries
from metasched.knowledge.library import NO_KNOWLEDGE, Knowledge, cpu_of, installed, shipped
from tests.support.targets import AVX2, AVX512

KIND = "y[s0, s1] sum= x0[s0, r0] * x1[r0, s1] of x0: f32, x1: f32, y: f32"
PROGRAM = ms.operator("matmul_nn", M=64, N=64, K=64)
LIMIT = 1 << 20


CPU = Cpu(16, 2)


def entry(*extents: int, cpu: Cpu = CPU, microseconds: float = 1.0, **changed: object) -> Entry:
    made = {"structure": (), "steps": (), "numbers": (("unroll({anchor})/limit", 16),)} | changed
    return Entry(kind=KIND, cpu=cpu, extents=extents, microseconds=microseconds, **made)  # type: ignore[arg-type]


def test_the_nearest_come_first_and_those_of_other_vectors_only_where_there_are_no_own() -> None:
    near, far, other = entry(64, 64, 32), entry(8, 64, 64), entry(64, 64, 64, cpu=cpu_of(AVX2))
    known = Knowledge((far, other, near, entry(64, 64)))
    found = known.nearest(anchor_of(PROGRAM.func), AVX512, 8)
    assert [(n.entry, n.distance) for n in found] == [(near, 1.0), (far, 3.0)]
    assert known.nearest(anchor_of(PROGRAM.func), AVX512, 1)[0].entry == near
    assert [n.entry for n in known.nearest(anchor_of(PROGRAM.func), AVX2, 8)] == [other]
    (only,) = Knowledge((other,)).nearest(anchor_of(PROGRAM.func), AVX512, 8)
    assert (only.entry, only.distance) == (other, 3.0)
    assert known.nearest(anchor_of(PROGRAM.func), AVX512.with_threads(8), 1)[0].distance == 2.0


def test_it_may_be_given_as_a_file_or_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.knowledge"
    path.write_text(print_entries([entry(1, 2, 3)]), encoding="utf-8")
    assert Knowledge.of(path).entries == Knowledge.of(str(path)).entries == (entry(1, 2, 3),)
    assert Knowledge.of("none") is NO_KNOWLEDGE
    assert Knowledge.of(NO_KNOWLEDGE) is NO_KNOWLEDGE
    assert Knowledge.of(path).digest != NO_KNOWLEDGE.digest
    with pytest.raises(KnowledgeError, match=r"cannot be read: .*\n  hint: `metasched db distill` writes"):
        Knowledge.of(tmp_path / "none.knowledge")


@pytest.mark.parametrize(
    ("file", "reason"),
    [("metasched knowledge 1\nnonsense\n", "toy.knowledge:2: "), (None, "is no file of knowledge: there is no file")],
)
def test_a_broken_file_of_another_package_is_named_with_a_way_out(
    file: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "toy_knowledge.py").write_text(
        "from pathlib import Path\n\ntoy = Path(__file__).with_name('toy.knowledge')\n"
    )
    if file is not None:
        (tmp_path / "toy.knowledge").write_text(file)
    info = tmp_path / "toy_knowledge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy_knowledge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[metasched.knowledge]\ntoy = toy_knowledge:toy\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "toy_knowledge", raising=False)
    installed.cache_clear()
    said = "the knowledge `toy` of toy_knowledge 1.0 cannot be used: "
    way_out = 'hint: update or remove it; knowledge="none" (`--knowledge none`) goes without'
    with pytest.raises(KnowledgeError) as info_of:
        Knowledge.of(None)
    assert re.match(f"{re.escape(said)}.*{re.escape(reason)}.*{re.escape(way_out)}", str(info_of.value), re.DOTALL)
    assert Knowledge.of("none") is NO_KNOWLEDGE


def test_what_is_shipped_is_small_and_sorted() -> None:
    for file in sorted((Path(ms.__file__).parent / "knowledge").glob("*.knowledge")):
        text = file.read_text(encoding="utf-8")
        assert len(text.encode()) <= LIMIT
        known = Knowledge.of(file)
        assert print_entries(known.entries) == text, f"{file.name}: `metasched db distill` sorts it"
        assert set(known.entries) <= set(shipped().entries)


def test_of_each_size_the_fastest_structures_are_kept() -> None:
    tiled, cached = (("a", "tiled"),), (("a", "cached"),)
    best, other = entry(8, 8, 8, structure=tiled), entry(8, 8, 8, structure=cached, microseconds=1.05)
    slower = entry(8, 8, 8, structure=tiled, microseconds=2.0)
    far = entry(8, 8, 8, structure=(("a", "none"),), microseconds=1.2)
    elsewhere = entry(8, 8, 9, microseconds=9.0)
    dots = entry(8, 8, 8, structure=(("use_vnni({anchor})/intrinsic", "dot_u8i8_vnni"),), microseconds=3.0)
    found = set(merge_entries([slower, other, dots], [best, far, elsewhere]))
    assert found == {best, other, elsewhere, dots}  # tiles are faster than dot products, where there are tiles


def test_a_trace_without_random_variables_says_nothing() -> None:
    assert describe_trace(PROGRAM, ms.Schedule(PROGRAM).trace, AVX512, 1.0) is None
    sch = ms.Schedule(PROGRAM)
    sch.split(sch.get_loops(sch.get_block("C"))[0], sch.sample_tile(sch.get_loops(sch.get_block("C"))[0], parts=2))
    found = describe_trace(PROGRAM, sch.trace, AVX512, 1e-3)
    assert found is not None
    assert [address for address, _ in found.numbers] == ["{anchor$0}"]
    assert (found.microseconds, found.cpu, found.kind) == (1000.0, Cpu(16, 2), KIND)


def test_options_of_programs_that_end_with_the_anchor() -> None:
    fused = (("tile({anchor})/fusion", "consumer at level 1"),)
    apart = (("tile({anchor})/fusion", "none"),)
    of_writer = (("vectorize({writer})/lanes", 8),)
    of_copy = (("vectorize({anchor}.{anchor#}.reindex)/lanes", 8),)
    followed = [entry(n, structure=fused, numbers=numbers) for n, numbers in enumerate((of_writer, of_copy))]
    known = Knowledge((*followed, entry(2, structure=apart)))
    assert known.of_last_anchors == {"tile({anchor})/fusion": {"none"}}
