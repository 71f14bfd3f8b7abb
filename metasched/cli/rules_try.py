"""`metasched rules try`: what a rule does to a program's space, and what it gains when the program is tuned."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from metasched.cli.arguments import (
    UsageError,
    add_allow,
    add_json,
    add_program,
    add_threads,
    positive,
    program_of,
    seed,
    timed_target,
)
from metasched.cli.command import INTERRUPTED, Console, ending_by_signal
from metasched.cli.progress_view import choose_view
from metasched.cli.render import table
from metasched.cli.rule_trial import WITH, WITHOUT, Placement, Spaces, Trial, place, run_trial, spaces
from metasched.errors import MetaschedError
from metasched.lang import print_decision
from metasched.lang.load import file_and_name
from metasched.measure.paired_timing import PAIRS
from metasched.report.progress import Progress, ProgressCallback
from metasched.report.progress_text import duration, failures
from metasched.search.strategy_registry import DEFAULT_STRATEGY
from metasched.space.explanation import explain
from metasched.space.rule import Outcome, Rule, inside
from metasched.space.rule_errors import describe_error, is_of_a_rule

NEVER_APPLIED = 1
_POLL_S = 0.3


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "rule",
        metavar="RULE",
        help="FILE.py:NAME, FILE.ms::NAME, a file with one rule, or the name of an installed rule",
    )
    add_program(parser)
    parser.add_argument("--trials", type=positive, default=32, metavar="N", help="of each side (default: %(default)s)")
    parser.add_argument("--rules", metavar="SPEC", help="the other rules (default: cpu)")
    parser.add_argument(
        "--at",
        metavar="PLACE",
        help="where the rule goes among them: first, last, or the name of the rule to go before "
        "(default: first; a rule that they have stays where it is)",
    )
    parser.add_argument("--instead-of", metavar="NAME", help="the rule takes the place of this one")
    parser.add_argument(
        "--pairs", type=positive, default=PAIRS, metavar="N", help="timings of the two best (default: %(default)s)"
    )
    parser.add_argument(
        "--strategy", default=DEFAULT_STRATEGY, metavar="NAME", help="of both searches (default: %(default)s)"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of both searches")
    parser.add_argument("--sketches", action="store_true", help="print the sketches that the rule adds, whole")
    parser.add_argument("--watch", action="store_true", help="do it again whenever a file is saved; Ctrl-C ends it")
    add_allow(parser)
    add_threads(parser)
    add_json(parser)


def run(args: Namespace, console: Console) -> int:
    with ending_by_signal() as ending:
        if args.watch:
            watch(lambda: run_once(args, console), _files(args), console)
            return 0 if ending.status == INTERRUPTED else ending.status  # Ctrl-C is how it ends
        status = run_once(args, console)
    return ending.status if status == INTERRUPTED else status


def run_once(args: Namespace, console: Console) -> int:
    program = program_of(args)
    placement = place(args.rule, args.rules, args.at, args.instead_of)
    target = timed_target(args, console)
    both = spaces(program, placement, target, args.seed, allow=args.allow)
    if args.json:
        console.print_json(_space_json(program.key, both))
    else:
        console.print(render_spaces(program.key, both, whole=args.sketches))
    if not both.has_applied:
        return NEVER_APPLIED
    view = choose_view(console, args.json)

    def progress(side: str) -> ProgressCallback:
        def tell(progress: Progress) -> None:
            view(replace(progress, task=f"{side}: {progress.task}"))

        return tell

    view.begin(program.key)
    try:
        trial = run_trial(program, both, target, args.trials, args.seed, args.pairs, progress, args.strategy)
    finally:
        view.close()
    if args.json:
        console.print_json(_trial_json(program.key, placement, trial))
    else:
        console.print("\n" + render_trial(placement, trial))
    return INTERRUPTED if trial.interrupted else 0


# --- again and again


def _files(args: Namespace) -> list[Path]:
    """The files that are read: the rule's and the program's."""
    rule = file_and_name(args.rule)[0]
    rule = rule if Path(rule).exists() else rule.rpartition(":")[0]
    found = [Path(name) for name in (rule, file_and_name(args.program)[0]) if name and Path(name).is_file()]
    if not found:
        raise UsageError("--watch: there is no file to watch")
    return found


def watch(
    once: Callable[[], object],
    files: list[Path],
    console: Console,
    wait: Callable[[], None] = lambda: time.sleep(_POLL_S),
) -> int:
    """Call a function now and whenever one of the files is saved, until Ctrl-C. Mistakes in the files are shown.

    Other exceptions are raised.
    """
    try:
        while True:
            seen = _stamps(files)
            try:
                if once() == INTERRUPTED:
                    return 0
            except (MetaschedError, OSError) as error:
                console.note(f"metasched rules try: {describe_error(error)}")
            except Exception as error:
                if not is_of_a_rule(error):
                    raise
                console.note(f"metasched rules try: {describe_error(error)}")
            console.note(f"\nwatching {' and '.join(str(f) for f in files)}; Ctrl-C ends it")
            while _stamps(files) == seen:
                wait()
    except KeyboardInterrupt:
        return 0


def _stamps(files: list[Path]) -> list[tuple[int, int] | None]:
    """When each was saved, and its size; None while an editor replaces it."""
    out: list[tuple[int, int] | None] = []
    for file in files:
        try:
            stat = file.stat()
        except FileNotFoundError:
            out.append(None)
        else:
            out.append((stat.st_mtime_ns, stat.st_size))
    return out


# --- what is shown


def render_spaces(task: str, both: Spaces, *, whole: bool) -> str:
    """Which blocks the rule took or why not, and the sketches that it added."""
    rule = both.placement.rule
    where = "" if rule.place is None else f" ({rule.place})"
    lines = [f"{task}: rule {rule.name}{where}", f"rules: {both.placement.spec}"]
    if both.placement.listed:
        lines.append(f"without it: {both.placement.without_spec} (the rule is in the list, and is taken out of it)")
    lines += ["", _verdicts(both)]
    if not both.has_applied:
        return "\n".join([*lines, "", "The rule never applied, so there is nothing to measure."])
    added = both.added_sketches()
    more = "" if both.rules.complete and both.without.complete else " (of more: a sample was taken)"
    counts = f"{len(both.without)} without the rule, {len(both.rules)} with it, {len(added)} of them new"
    lines += ["", f"sketches: {counts}{more}"]
    for n, sketch in added:
        choices = ", ".join(f"{address} = {print_decision(taken)}" for address, taken in sketch.structure.items())
        lines.append(f"    {n}: {choices or 'no choices'}")
        if whole:
            lines += ["", *(f"        {line}" for line in str(sketch).splitlines()), ""]
    return "\n".join(lines)


def _verdicts(both: Spaces) -> str:
    """What the rule did, as `explain` says it, in the sketches of the space with it."""
    return explain(_own_outcomes(both), [both.placement.rule])


def _own_outcomes(both: Spaces) -> list[tuple[Outcome, ...]]:
    """The outcomes of the rule and its parts in each sketch of the space with it."""
    rule = both.placement.rule
    names = {rule.name, *_parts(rule)}
    return [tuple(o for o in run if o.rule in names) for run in both.rules.outcomes()]


def _parts(rule: Rule) -> list[str]:
    return [inside(rule.name, part) for part in rule.inner]


def render_trial(placement: Placement, trial: Trial) -> str:
    """The two searches' results, the gain and how sure it is, and how to use the rule."""
    rows = [["", "trials", "best in the search", "timed again", "failures"]]
    for n, (name, report) in enumerate(((WITHOUT, trial.without), (WITH, trial.rules))):
        best = report.best.seconds if report.best is not None else None
        again = None if trial.comparison is None else trial.comparison.medians[n]
        times = ["-" if seconds is None else duration(seconds) for seconds in (best, again)]
        rows.append([name, str(report.records), *times, failures(dict(report.failures)) or "none"])
    lines = [table(rows, "<>>>")]
    for name, report in ((WITHOUT, trial.without), (WITH, trial.rules)):
        if report.exhausted:
            lines.append(f"{name}: after {report.records} trials the search found nothing new in its space")
    lines.append("")
    if trial.interrupted:
        return "\n".join([*lines, "Interrupted."])
    if trial.comparison is not None:
        low, high = trial.comparison.interval
        count = len(trial.comparison.pairs)
        lines += [
            f"gain {trial.comparison.gain:.3f}x, 95 % interval {low:.3f} to {high:.3f}: {verdict(trial)}",
            f"({count} timings of the two best schedules in turns; another --seed is another pair of searches)",
        ]
    else:
        lines.append(verdict(trial))
    lines += ["", f"To use it: --rules {placement.spec}"]
    if placement.listed:
        lines.append(f"To leave it out: --rules {placement.without_spec}")
    return "\n".join(lines)


def verdict(trial: Trial) -> str:
    """The verdict on the gain, in words."""
    if trial.without.best is None or trial.rules.best is None:
        return "one of the searches found no valid schedule"
    if trial.comparison is None:
        return "gain 1: both searches ended at the same schedule"
    low, high = trial.comparison.interval
    if low > 1:
        return "faster with the rule"
    return "slower with the rule" if high < 1 else "no difference that these timings show"


def _space_json(task: str, both: Spaces) -> dict[str, object]:
    rule = both.placement.rule
    verdicts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in (rule.name, *_parts(rule))}
    for o in (o for run in _own_outcomes(both) for o in run):
        counts = verdicts[o.rule].setdefault(o.block, {})
        verdict = "applied" if o.reason is None else o.reason
        counts[verdict] = counts.get(verdict, 0) + 1
    return {
        "event": "space",
        "task": task,
        "rule": rule.name,
        "rules": both.placement.spec,
        "rules_without": both.placement.without_spec,
        "fired": both.has_applied,
        "blocks": verdicts.pop(rule.name),
        "parts": verdicts,
        "sketches_without": len(both.without),
        "sketches_with": len(both.rules),
        "sketches_added": len(both.added_sketches()),
    }


def _trial_json(task: str, placement: Placement, trial: Trial) -> dict[str, object]:
    comparison = trial.comparison

    def side(best: float | None) -> float | None:
        return None if best is None else best * 1e3

    return {
        "event": "result",
        "task": task,
        "rules": placement.spec,
        "without_ms": side(trial.without.best.seconds if trial.without.best else None),
        "with_ms": side(trial.rules.best.seconds if trial.rules.best else None),
        "gain": None if comparison is None else comparison.gain,
        "interval": None if comparison is None else list(comparison.interval),
        "pairs": 0 if comparison is None else len(comparison.pairs),
        "verdict": verdict(trial),
        "interrupted": trial.interrupted,
        "trace": None if trial.rules.best is None else trial.rules.best.trace,
    }
