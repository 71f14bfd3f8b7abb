"""The parser's tables as text: read, they take a tenth of the time that it takes to make them of the grammar.

The file stands beside the grammar, and is only for the grammar and the release of Lark that it was made of and by:
`make docs` writes it anew. Where it is for others, the parser is made of the grammar.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from typing import Any

import lark
from lark import Lark

from metasched.lang.text.layout import Layout, Start

FILE = "metasched.tables"


def build_parser(grammar: str) -> Lark:
    """The parser of a grammar, made anew."""
    return Lark(
        grammar,
        parser="lalr",
        start=[start.value for start in Start],
        postlex=Layout(),
        propagate_positions=True,
        maybe_placeholders=True,
    )


def tables_text(grammar: str) -> str:
    """The tables of a grammar as text, a line for each state."""
    file = io.BytesIO()
    build_parser(grammar).save(file, exclude_options=("postlex",))
    tables = pickle.loads(file.getvalue())
    table = tables["data"]["parser"]["parser"]
    states = table.pop("states")
    lines = [json.dumps({"of": origin(grammar), "tables": tables})]
    lines += [json.dumps([state, actions]) for state, actions in states.items()]
    return "\n".join(lines) + "\n"


def read_tables(text: str, grammar: str) -> Lark | None:
    """The parser that tables are of; None where they are of another grammar or by another release of Lark."""
    first, _, rest = text.partition("\n")
    head = json.loads(first)
    if head["of"] != origin(grammar):
        return None
    tables = head["tables"]
    states = json.loads(f"[{','.join(rest.splitlines())}]")
    table = tables["data"]["parser"]["parser"]
    table["states"] = {state: _number_keys(actions) for state, actions in states}
    table["tokens"] = _number_keys(table["tokens"])
    tables["memo"] = _number_keys(tables["memo"])
    tables["data"]["options"]["postlex"] = Layout()
    return Lark.load(tables)  # it takes a file, or what was in it


def origin(grammar: str) -> list[str]:
    """What tables depend on."""
    starts = " ".join(start.value for start in Start)
    return [lark.__version__, hashlib.sha256(f"{starts}\n{grammar}".encode()).hexdigest()]


def _number_keys(by_text: dict[str, Any]) -> dict[int, Any]:
    """A table of JSON, whose keys are texts, with numbers as keys."""
    return {int(key): value for key, value in by_text.items()}
