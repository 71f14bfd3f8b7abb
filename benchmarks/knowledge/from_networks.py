"""What the tuning of whole networks has found, as knowledge: `python -m benchmarks.knowledge.from_networks --db URL`.

The database is one that `metasched net tune MODEL.onnx --db URL` has filled, of any models: their layers are timed in
the network's own surroundings, weights cold. Sizes that guesses are judged by (`benchmarks.network_shapes`) are left
out. What the file has already is kept where it is faster.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.network_shapes import LAYERS
from metasched.database import open_database
from metasched.knowledge.anchor import anchor_of
from metasched.knowledge.distill import entries_of, merge_entries
from metasched.knowledge.entries import Entry, print_entries
from metasched.knowledge.library import read_file

SHIPPED = Path("metasched/knowledge/cpu.knowledge")


def entries_not_judged(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Entries of other sizes than those that guesses are judged by."""
    judged = set()
    for layer in LAYERS:
        anchor = anchor_of(layer.program().func)
        judged.add((anchor.kind, anchor.extents, anchor.steps))
    return (entry for entry in entries if (entry.kind, entry.extents, entry.steps) not in judged)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.knowledge.from_networks", description=__doc__)
    parser.add_argument("--db", required=True, action="append", metavar="URL", help="a database; may be repeated")
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FILE", help="default: %(default)s")
    args = parser.parse_args()
    known = list(read_file(args.out)) if args.out.exists() else []
    for url in args.db:
        with open_database(url) as database:
            known = merge_entries(known, entries_not_judged(entries_of(database)))
    args.out.write_text(print_entries(known), encoding="utf-8")
    print(f"{len(known)} entries in {args.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
