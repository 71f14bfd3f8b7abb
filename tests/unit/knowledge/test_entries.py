from __future__ import annotations

import pytest

from metasched.knowledge.entries import HEADER, Cpu, Entry, KnowledgeError, parse_entries, print_entries
from metasched.lang.instructions import HOLE, Ref

KIND = "y[s0] sum= x0[s0, r0] of x0: f32, y: f32"
STRUCTURE = (("tile({anchor})/fusion", "none"), ("place({anchor<0})/p", Ref("{anchor$0}_0")))


def entry(extents: tuple[int, ...] = (8, 16), microseconds: float = 1.5, **changed: object) -> Entry:
    numbers = (("tile({anchor})/{anchor$0}", (HOLE, 4, 8)), ("vectorize({writer})/lanes", 16))
    made: dict[str, object] = {"kind": KIND, "cpu": Cpu(16, 2), "structure": STRUCTURE, "extents": extents}
    made |= {"steps": (), "microseconds": microseconds, "numbers": numbers}
    return Entry(**(made | changed))  # type: ignore[arg-type]


def test_a_file_reads_back_and_is_sorted() -> None:
    entries = [entry((9, 9)), entry(), entry(steps=(2, 1)), entry(cpu=Cpu(8, 1)), entry(structure=())]
    text = print_entries(entries)
    noted = text.replace(HEADER, f"{HEADER}\n# found by hand", 1)
    assert sorted(map(str, parse_entries(noted))) == sorted(map(str, entries))
    assert print_entries(reversed(list(parse_entries(noted)))).count("\n") == text.count("\n")
    assert text.startswith(f"{HEADER}\n\nkind {KIND}\ncpu 16 lanes, 2 threads\nstructure\n")
    assert "  8x16 by 2x1 in 1.5 us: [[null,4,8],16]\n" in text


@pytest.mark.parametrize("microseconds", [1.5, 123456.0, 1234567.0, 3.6e9, 0.000125, 1e-9, 12.3456])
def test_a_time_of_any_length_reads_back(microseconds: float) -> None:
    text = print_entries([entry(microseconds=microseconds)])
    assert [found.microseconds for found in parse_entries(text)] == [pytest.approx(microseconds, rel=1e-5)]
    assert print_entries(parse_entries(text)) == text


@pytest.mark.parametrize("time", ["1.2.3", "", ".", "0x1p3", "nan", "-1"])
def test_what_is_no_time_is_refused(time: str) -> None:
    with pytest.raises(KnowledgeError, match="<text>:12: what was found is "):
        list(parse_entries(print_entries([entry()]).replace("in 1.5 us", f"in {time} us")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((HEADER, "something else"), "it does not begin with `metasched knowledge 1`"),
        (("16 lanes, 2 threads", "a fast one"), "mine:4: a CPU is `N lanes, N threads`"),
        (("structure", "structures"), "mine:5: a line begins with kind, cpu"),
        ((" := ", " = "), "mine:6: a decision is `ADDRESS := JSON`"),
        (("8x16 in", "8x in"), "mine:12: what was found is"),
        (("8x16 in", "0x16 in"), "mine:12: sizes are positive"),
        ((",16]", "]"), "mine:12: it has 1 numbers, and 2 are named"),
        (("[[null", '[[{"lambda": 1}'), "mine:12: {'lambda': 1} is no decision"),
    ],
)
def test_mistakes_say_where_they_are(change: tuple[str, str], message: str) -> None:
    text = print_entries([entry()])
    assert change[0] in text
    with pytest.raises(KnowledgeError) as caught:
        list(parse_entries(text.replace(*change), "mine"))
    assert message in str(caught.value)
