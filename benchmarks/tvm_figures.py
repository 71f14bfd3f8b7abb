"""What TVM's tuning of the twelve operators came to, from a file: its best times, and the seconds that tuning took.

The file is JSON: `operators` has an object for each operator by its name among the twelve, with `tvm_ms`, the time of
the best kernel in milliseconds, and `tvm_tune_s`, the seconds of the tuning that found it. What else is there is passed
over.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.registry import OptionError

_FORM = '{"operators": {"C1D": {"tvm_ms": 0.04, "tvm_tune_s": 178}, ...}}'


@dataclass(frozen=True)
class TvmFigures:
    """Seconds of TVM's best kernel for an operator, and of the tuning that found it."""

    best_s: float
    tune_s: float


def read_figures(path: Path | None) -> Mapping[str, TvmFigures]:
    """What a file says of each operator; nothing without a file.

    Raises OptionError for a file that cannot be read, or that says something else.
    """
    if path is None:
        return {}
    try:
        operators = json.loads(path.read_text(encoding="utf-8"))["operators"]
        return {name: _figures(of_one) for name, of_one in operators.items()}
    except OSError as error:
        raise OptionError(f"TVM's figures cannot be read: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OptionError(f"{path} has no figures of TVM's tuning, which have the form {_FORM}") from error


def _figures(of_one: Mapping[str, Any]) -> TvmFigures:
    return TvmFigures(float(of_one["tvm_ms"]) * 1e-3, float(of_one["tvm_tune_s"]))
