from __future__ import annotations

import re
from pathlib import Path

import pytest

import metasched as ms
from metasched.space import registry, rule_files
from tests.support.installed_rules import installed_presets, installed_rules
from tests.support.programs import DENSE_RELU
from tests.support.schedules import program

TILES = (
    "im2col",
    "interleaved",
    "dot_products",
    "short_sums",
    "multi_level_tiling",
    "packing",
    "rolling",
    "compute_location",
    "padding",
    "row_runs",
    "short_rows",
    "tile_transposition",
    "long_rows",
)
LAST = (
    "columns",
    "parallelize",
    "prefetch",
    "prefetch_tiles",
    "vectorize",
    "reduction_lanes",
    "stream",
    "fast_arithmetic",
    "unroll",
)
TENSORS = ("use_amx", "use_avx512_bf16", "use_vnni", "use_vnni_windows")
EARLY = (
    "winograd",
    "padding_terms",
    "scans",
    "blocked_sums",
    "unpacking",
    "products_in_blocks",
    "row_parts",
    "row_chain",
    "lockstep",
    "grouping",
    "inline",
    "gates",
    "strips",
    "scatter",
)
FIRST = (*EARLY, "rfactor", "borders", "transpose_result", "parities")
CPU = (*FIRST, *TENSORS, *TILES, *LAST)
# Installed, and in no preset.
OTHERS = ("merge_parallel", "tensorize")


def names(spec: registry.RuleSpec) -> tuple[str, ...]:
    return tuple(r.name for r in registry.resolve(spec))


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "my.py"
    path.write_text(
        "import metasched as ms\n\n\n"
        "@ms.rule\n"
        "def my_rule(sch, block, *, size: int = 3):\n"
        '    """Do mine."""\n\n\n'
        "several = (my_rule, my_rule(size=4))\n"
        "number = 3\n"
    )
    return path


def test_what_is_installed() -> None:
    assert set(installed_rules()) == {*CPU, *OTHERS}
    assert tuple(r.name for r in installed_presets()["cpu"]) == CPU


def test_installed_is_not_active() -> None:
    assert names("+inline") == ("inline",)
    assert names([]) == ()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (None, CPU),
        ("cpu", CPU),
        ("cpu,-winograd", CPU[1:]),
        ("cpu, -winograd , -unroll", CPU[1:-1]),
        ("cpu,-winograd,+winograd", (*CPU[1:], "winograd")),
        ("unroll,vectorize", ("unroll", "vectorize")),
        ("+unroll", ("unroll",)),
        (["unroll", "cpu"], ("unroll", *CPU)),
    ],
)
def test_specifications(spec: registry.RuleSpec, expected: tuple[str, ...]) -> None:
    assert names(spec) == expected


def test_rules_in_a_file(mine: Path) -> None:
    assert names(f"cpu,+{mine}:my_rule") == (*CPU, "my_rule")
    assert [r.parameters["size"] for r in registry.resolve(f"{mine}:several")] == [3, 4]
    assert names([f"{mine}:my_rule"]) == ("my_rule",)


def test_rules_as_values() -> None:
    rule = installed_rules()["unroll"]
    assert registry.resolve([rule(limits=(0,)), "vectorize"])[0].parameters["limits"] == (0,)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("cpu,-tile", "`-tile`: there is no such rule to drop\n  hint: there are `blocked_sums`, `borders`"),
        ("-inline", "`-inline`: there is no such rule to drop\n  hint: there are none"),
        ("cpu,,-inline", "the rule specification 'cpu,,-inline' has an empty part"),
        ("", "the rule specification '' has an empty part"),
        ("cpu,+vectorise", "no rule or preset `vectorise` is installed\n  hint: did you mean `vectorize`?"),
        (
            "gpu",
            "no rule or preset `gpu` is installed\n  hint: did you mean `cpu`? Installed are `blocked_sums`",
        ),
        ("quickest", "no rule or preset `quickest` is installed\n  hint: installed are `blocked_sums`, `borders`"),
        (
            "cpu,+my.py",
            "`my.py` is installed\n  hint: a rule of a file is named after a colon: `my.py:RULE`",
        ),
        ("cpu,+nowhere.py:rule", "there is no file nowhere.py"),
    ],
)
def test_specifications_that_are_wrong(spec: str, message: str) -> None:
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        registry.resolve(spec)


def test_what_is_installed_is_listed() -> None:
    with pytest.raises(
        ms.RuleError, match="Installed are `blocked_sums`, `borders`, `columns`, `compute_location`, `cpu`"
    ):
        registry.resolve("gpu")


def test_names_that_a_file_does_not_have(mine: Path) -> None:
    with pytest.raises(ms.RuleError, match=re.escape("has no `your_rule`\n  hint: its rules are `my_rule`")):
        registry.resolve(f"{mine}:your_rule")
    with pytest.raises(ms.RuleError, match=re.escape("is no rule: decorate the function with @metasched.rule")):
        registry.resolve(f"{mine}:number")


def test_an_error_in_a_file_is_not_swallowed(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        registry.resolve(f"{path}:rule")


def test_a_text_that_is_no_python(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("")
    with pytest.raises(ms.RuleError, match="is not a Python file"):
        registry.resolve(f"{path}:rule")


def test_a_space_of_rules(mine: Path) -> None:
    made = ms.space(program(DENSE_RELU), rules=f"{mine}:my_rule")
    assert len(made) == 1
    assert "my_rule  applied" in made.explain()
    with pytest.raises(ms.MetaschedError, match="`rules` and `module` both say what to search\n  hint: give one"):
        ms.space(program(DENSE_RELU), rules="cpu", module=lambda sch: None)


def test_a_list_holds_rules_and_names_only() -> None:
    def plain(sch: ms.Schedule, block: object) -> None:
        """Nothing."""

    with pytest.raises(ms.RuleError, match=r"`plain` is no rule: decorate the function with @metasched\.rule"):
        registry.resolve([plain])  # type: ignore[list-item]


# --- lists and presets


def test_a_list_holds_specifications_rules_modules_and_lists() -> None:
    module = ms.parse_module("module rows(block):\n    i, *_ = get_loops(block)\n    unroll(i)\n")
    mine = installed_rules()["unroll"].named("mine")
    assert names(["cpu,-inline,-stream", "-unroll", mine]) == (
        *(n for n in CPU if n not in {"inline", "stream", "unroll"}),
        "mine",
    )
    assert names([mine, ["cpu", ("stream", [mine])], module]) == ("mine", *CPU, "stream", "mine", "rows")
    assert names(["cpu", "unroll@dense"]) == CPU
    assert registry.resolve(["cpu", "unroll@dense"])[-1].blocks.only == ("dense",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([3], "`3` is no rule"),
        (["cpu", [None]], "`None` is no rule"),
        ([{"cpu"}], "`{'cpu'}` is no rule"),
        ([["-inline"]], "`-inline`: there is no such rule to drop\n  hint: there are none"),
        (["unroll", ["-unroll"]], "`-unroll`: there is no such rule to drop\n  hint: there are none"),
        (["cpu,,unroll"], "the rule specification 'cpu,,unroll' has an empty part"),
    ],
)
def test_anything_else_in_a_list_is_named(given: list[object], message: str) -> None:
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        registry.resolve(given)  # type: ignore[arg-type]


@pytest.fixture
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package with presets, of which some are wrong."""
    (tmp_path / "vnni_presets.py").write_text(
        "import metasched as ms\n\n\n"
        "@ms.rule\n"
        "def vnni(sch, block):\n"
        '    """Use VNNI."""\n\n\n'
        'more = [vnni, "cpu"]\n'
        'less = "more,-stream"\n'
        'around = ["less", ["round"]]\n'
        'round = ("around",)\n'
        "wrong = [vnni, 3]\n"
        'lost = ["more", "nothing_like_it"]\n'
        "number = 3\n"
    )
    entry_points_of(
        tmp_path,
        "vnni",
        *(f"{name} = vnni_presets:{name}" for name in ("vnni", "more", "less", "around", "round", "wrong", "lost")),
        "count = vnni_presets:number",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return str(tmp_path)


def test_a_preset_of_a_package_extends_another(presets: str) -> None:
    assert names("more") == ("vnni", *CPU)
    assert names("less") == ("vnni", *(n for n in CPU if n != "stream"))
    assert names("more,-inline") == ("vnni", *(n for n in CPU if n != "inline"))
    assert names(f"+{presets}/vnni_presets.py:more") == ("vnni", *CPU)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("around", "the preset `around` holds itself: around > round > around"),
        ("wrong", "`3` is no rule: decorate the function with @metasched.rule (in the preset wrong)"),
        (
            "lost",
            "`nothing_like_it` is installed (in the preset lost)\n  hint: installed are `around`, `blocked_sums`",
        ),
        ("count", "`count` of vnni 1.0 (vnni_presets:number) is no rule"),
    ],
)
def test_presets_that_are_wrong(presets: str, name: str, message: str) -> None:
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        registry.resolve(name)


# --- rules for some blocks


@pytest.mark.parametrize(
    ("spec", "restricted"),
    [
        ("cpu,-inline@relu", {"inline": "except `relu`"}),
        ("cpu,-inline@relu|conv*,-unroll", {"inline": "except `relu` and `conv*`"}),
        ("cpu,unroll@dense", {"unroll": "only for `dense`"}),
        ("cpu,unroll@dense,unroll@conv*", {"unroll": "only for `dense` and `conv*`"}),
        ("unroll@dense", {"unroll": "only for `dense`"}),
        ("cpu@dense", dict.fromkeys(CPU, "only for `dense`")),
    ],
)
def test_rules_for_some_blocks(spec: str, restricted: dict[str, str]) -> None:
    found = {r.name: refusal for r in registry.resolve(spec) if (refusal := r.blocks.refusal("relu")) is not None}
    assert {name: text.rpartition("blocks ")[2].rpartition("is ")[2] for name, text in found.items()} == restricted


def test_a_second_rule_for_some_blocks() -> None:
    first, second = registry.resolve("+unroll,+unroll@dense")
    assert first.blocks.refusal("relu") is None
    assert second.blocks.refusal("relu") is not None


def test_files_with_an_at_in_their_path(tmp_path: Path) -> None:
    folder = tmp_path / "me@home"
    folder.mkdir()
    (folder / "my.py").write_text('import metasched as ms\n\n\n@ms.rule\ndef one(sch, block):\n    """Do."""\n')
    (rule,) = registry.resolve(f"{folder}/my.py:one@dense")
    assert rule.blocks.only == ("dense",)
    assert registry.resolve(f"{folder}/my.py:one")[0].blocks.only == ()


# --- files


def test_a_file_is_read_anew(mine: Path) -> None:
    """Two versions of one size, saved in one second, are two files."""
    assert rule_files.rules_of_file(mine)["my_rule"].parameters == {"size": 3}
    mine.write_text(mine.read_text().replace("size: int = 3", "size: int = 5"))
    assert rule_files.rules_of_file(mine)["my_rule"].parameters == {"size": 5}
    assert not (mine.parent / "__pycache__").exists()


def test_a_file_may_define_facts(tmp_path: Path) -> None:
    path = tmp_path / "my.py"
    path.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport metasched as ms\n\n"
        "@dataclass(frozen=True)\nclass Seen:\n    times: int\n\n"
        '@ms.rule\ndef one(sch, block):\n    """Do."""\n    sch.add_fact(block, Seen(1))\n'
    )
    assert list(rule_files.rules_of_file(path)) == ["one"]
    path.write_text("number = 3\n")
    with pytest.raises(ms.RuleError, match=r"has no rules: decorate a function with @metasched\.rule"):
        rule_files.rules_of_file(path)


# --- packages


def entry_points_of(folder: Path, package: str, *lines: str) -> None:
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[metasched.rules]", *lines]) + "\n")


def test_a_package_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry_points_of(tmp_path, "broken", "lost = broken_rules_of_nobody:lost")
    monkeypatch.syspath_prepend(tmp_path)
    message = "the rule `lost` of broken 1.0 cannot be loaded (broken_rules_of_nobody:lost): No module named"
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        registry.resolve("cpu,+lost")
    assert names("cpu") == CPU


def test_two_packages_with_a_rule_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them is meant is not for us to guess."""
    entry_points_of(tmp_path, "other", "unroll = json:loads")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ms.RuleError, match=r"two packages have a rule `unroll`: .*other 1\.0 \(json:loads\)"):
        registry.resolve("unroll")


def test_where_nothing_is_installed_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metasched.support.registry.entry_points", lambda **_: ())
    message = "no rule or preset `cpu` is installed\n  hint: rules, metasched's own among them, are found through"
    with pytest.raises(ms.RuleError, match=re.escape(message)):
        registry.resolve(None)
