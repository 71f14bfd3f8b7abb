"""Every rule that ships fires on several operators or says why not, and its page shows what it writes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from docs.building.firing import ENOUGH, Firings, firings, programs, shipped_rules, why_few
from docs.building.shipped_rules import example, rules_page
from tests.support.rulework import apply

# Results without an index, of terms with and without conditions: blocks with no spatial variable.
SCALARS = {
    "sum": "W: f32[]:\n    W[] = sum[i, j < 70](X[i, j])",
    "running": "W: f32[]:\n    W[] = sum[i, j < 70 if j <= i](X[i, j])",
    "placed": "W: f32[]:\n    W[] = max[i, j if i64(I[i]) == j](X[i, j])",
    "second": "(W: f32[], Q: i64[]):\n    V[], P[] = argmax[i, j](X[i, j])\n"
    "    W[], Q[] = argmax[i, j < 70 if i*70 + j != P[]](X[i, j] if V[] > 0 else 0)",
    "product": "W: f32[]:\n    T[i, j] = exp(X[i, j])\n    W[] = sum[i, j](T[i, j] * X[j, i])",
}


@pytest.fixture(scope="module")
def found() -> Firings:
    """Where each rule fires, which takes seconds to find out."""
    return firings(programs())


def test_each_fires_on_several_programs_or_says_why_not(found: Firings) -> None:
    few = {name for name in shipped_rules() if len(found[name]) < ENOUGH}
    said = {name for name, rule in shipped_rules().items() if why_few(rule)}
    assert few == said, (
        f"a rule fires on {ENOUGH} programs, or its documentation has a paragraph `Few operators: ...` that says why "
        f"not; without one: {sorted(few - said)}; with one, and firing on as many: {sorted(said - few)}"
    )


def test_the_page_shows_what_each_writes(found: Firings) -> None:
    sections = re.split(r"^\((\w+)\)=\n", rules_page(found), flags=re.MULTILINE)
    by_rule = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert by_rule.keys() == shipped_rules().keys()
    assert [name for name, text in by_rule.items() if "\nFor the block `" not in text] == []
    assert "## Where they fire" in sections[0]
    assert "compute_inline(" in by_rule["inline"]
    assert max(len(text.partition("\nFor the block")[2].splitlines()) for text in by_rule.values()) < 25
    firing = found["use_amx"][0]
    assert "# and " in example(firing)
    assert "# and " not in example(replace(firing, steps=firing.steps[:4]))
    assert not replace(firing, steps=firing.steps[:2]).transforms  # it looks, and chooses


def test_the_reason_for_few_is_a_paragraph() -> None:
    rule = shipped_rules()["inline"]
    assert why_few(rule) is None
    assert why_few(replace(rule, doc="Do it.\n\nFew operators: none\nhas it.\n\nArgs:\n    a: it.")) == "none has it."
    assert why_few(replace(rule, doc="Do it. Few operators: no.")) is None


@pytest.mark.parametrize("name", SCALARS)
def test_each_takes_scalars_or_says_why_not(name: str) -> None:
    indices = "I: i32[70], " if "I[" in SCALARS[name] else ""
    text = f"program scalar({indices}X: f32[70, 70]) -> {SCALARS[name]}\n"
    for rule in shipped_rules().values():
        for outcome in apply(text, rule)[1]:
            assert outcome.reason != "", (rule.name, outcome.block)
