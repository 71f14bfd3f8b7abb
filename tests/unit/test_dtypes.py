"""Element types are declared once: the table is whole, nobody has another, and one is two lines of one file."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from metasched import dtypes
from metasched.dtypes import DType

ROOT = Path(__file__).parents[2]
# From so many on, different types in one literal are a table of types.
TABLE = 4


def missing_properties() -> tuple[str, ...]:
    """What the table lacks, or has too much of, a sentence each; there is nothing where it is whole."""
    wrong = [
        f"`{name}` has a row and is no member of DType" for name in dtypes._ROWS if name not in {d.value for d in DType}
    ]
    spelled: dict[str, str] = {}
    for name in (dtype.value for dtype in DType):
        if name not in dtypes._ROWS:
            wrong.append(f"`{name}` has no row in the table of metasched/dtypes.py")
            continue
        row = dtypes._ROWS[name]
        if np.dtype(row.numpy).itemsize * 8 != row.bits:
            wrong.append(f"`{name}` has {row.bits} bits, and NumPy's type {np.dtype(row.numpy).itemsize * 8}")
        if (row.float is None) is (row.kind is dtypes.DTypeKind.FLOAT):
            wrong.append(f"`{name}` is a {row.kind.value}: floats, and no others, have a format")
        if row.float is not None and row.float.sign >= row.bits + row.float.has_powers_alone:
            wrong.append(f"`{name}` has {row.bits} bits, and its format {row.float.sign + 1}")
        if row.computed_in and dtypes._ROWS[row.computed_in].computed_in:
            wrong.append(f"`{name}` is computed in `{row.computed_in}`, which is a type of storage itself")
        wrong += [
            f"`{word}` is a spelling of `{name}` and of `{spelled[word]}`"
            for word in row.spellings
            if spelled.setdefault(word, name) != name
        ]
    return tuple(wrong)


def test_the_table_is_whole() -> None:
    assert missing_properties() == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"i16": None}, "`i16` has no row in the table of metasched/dtypes.py"),
        (
            {"c64": dtypes.TypeProperties(dtypes.DTypeKind.FLOAT, 64, np.complex64)},
            "`c64` has a row and is no member of DType",
        ),
        ({"i16": replace(DType.I16.properties, bits=32)}, "`i16` has 32 bits, and NumPy's type 16"),
        ({"f32": replace(DType.F32.properties, float=None)}, "`f32` is a float: floats, and no others, have a format"),
        (
            {"f16": replace(DType.F16.properties, computed_in="bf16")},
            "computed in `bf16`, which is a type of storage itself",
        ),
        ({"i16": replace(DType.I16.properties, spellings=("half",))}, "`half` is a spelling of `i16` and of `f16`"),
    ],
)
def test_what_a_row_lacks_is_told(
    change: dict[str, dtypes.TypeProperties | None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {name: row for name, row in {**dtypes._ROWS, **change}.items() if row is not None}
    monkeypatch.setattr(dtypes, "_ROWS", rows)
    assert any(message in sentence for sentence in missing_properties()), missing_properties()


def named(node: ast.AST) -> str | None:
    """The element type that an expression names: `DType.F32`, or "f32"."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "DType":
        return DType[node.attr].value if node.attr in DType.__members__ else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value if node.value in {dtype.value for dtype in DType} else None
    return None


def test_no_other_file_has_a_table_of_element_types() -> None:
    tables = []
    for path in sorted((ROOT / "metasched").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if sum(f"DType.{dtype.name}" in text or f'"{dtype}"' in text for dtype in DType) < TABLE:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set):
                types = {named(inside) for inside in ast.walk(node)} - {None}
                if len(types) >= TABLE and path != ROOT / "metasched/dtypes.py":
                    tables.append(f"{path}:{node.lineno}: {sorted(map(str, types))}")
    assert not tables, "what there is to know of each type is in metasched/dtypes.py:\n" + "\n".join(tables)


MEMBER, ROW = re.compile('    U16 = "u16"\n'), re.compile('        "u16": TypeProperties.*\n')

SCRIPT = """
import numpy as np
import metasched as ms
try:
    ms.parse_program("program p(A: u16[4]) -> B: u16[4]:\\n    B[i] = A[i]\\n")
except ms.LanguageError as error:
    assert "`u16` is not" in str(error), error
program = ms.parse_program("program p[N=40](A: u8[N]) -> B: u32[N]:\\n    B[i] = u32(A[i]) * 3\\n")
a = np.arange(40, dtype=np.uint8)
np.testing.assert_array_equal(ms.compile(program)(a), a.astype(np.uint32) * 3)
print("done")
"""


def test_an_integer_type_is_two_lines_of_one_file(tmp_path: Path) -> None:
    """Without them it is unknown, and nothing else asks for it; `emit/test_types.py` runs every type that is there."""
    for folder in ("metasched", "grammar", "rules"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    table = tmp_path / "metasched" / "dtypes.py"
    text = table.read_text(encoding="utf-8")
    for line in (MEMBER, ROW):
        text, found = line.subn("", text)
        assert found == 1
    table.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "done\n", done.stderr
