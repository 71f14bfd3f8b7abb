"""Ufuncs of `scipy.special` as expressions of the language: those that the language has functions for.

SciPy is not imported here: whoever calls one of its ufuncs has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from metasched.doors.gamma_functions import DIGAMMA, LOG_GAMMA
from metasched.doors.jit.ufunc_form import Form

_SQRT_HALF = "0.7071067811865476"
_NAN_OF_BOTH = "{0} + {1}"

SPECIAL_FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "boxcox": Form(floats="(log({0}) if {1} == 0.0 else expm1({1} * log({0})) / {1})", divides=True),
        "boxcox1p": Form(floats="(log1p({0}) if {1} == 0.0 else expm1({1} * log1p({0})) / {1})", divides=True),
        "entr": Form(floats="({0} if {0} != {0} else -{0} * log({0}) if {0} > 0.0 else 0.0 if {0} == 0.0 else -inf)"),
        "erf": Form(floats="erf({0})"),
        "erfc": Form(floats="erfc({0})"),
        "exp10": Form(floats="pow(10.0, {0})"),
        "expit": Form(floats="sigmoid({0})"),
        "gammaln": Form(floats=LOG_GAMMA, wide=True),
        "huber": Form(
            floats=f"(inf if {{0}} < 0.0 else {_NAN_OF_BOTH} if {{0}} != {{0}} or {{1}} != {{1}} "
            "else 0.5 * {1} * {1} if abs({1}) <= {0} else {0} * (abs({1}) - 0.5 * {0}))"
        ),
        "kl_div": Form(
            floats=f"({_NAN_OF_BOTH} if {{0}} != {{0}} or {{1}} != {{1}} "
            "else {0} * log({0} / {1}) - {0} + {1} if {0} > 0.0 and {1} > 0.0 "
            "else {1} if {0} == 0.0 and {1} >= 0.0 else inf)",
            divides=True,
        ),
        "log_expit": Form(floats="min({0}, 0.0) - log1p(exp(-abs({0})))"),
        "logit": Form(floats="log({0} / (1.0 - {0}))", divides=True),
        "ndtr": Form(floats=f"0.5 * erfc(-{{0}} * {_SQRT_HALF})"),
        "psi": Form(floats=DIGAMMA, wide=True, divides=True),
        "rel_entr": Form(
            floats=f"({_NAN_OF_BOTH} if {{0}} != {{0}} or {{1}} != {{1}} "
            "else {0} * log({0} / {1}) if {0} > 0.0 and {1} > 0.0 else 0.0 if {0} == 0.0 and {1} >= 0.0 else inf)",
            divides=True,
        ),
        "xlog1py": Form(floats="(0.0 if {0} == 0.0 and {1} == {1} else {0} * log1p({1}))"),
        "xlogy": Form(floats="(0.0 if {0} == 0.0 and {1} == {1} else {0} * log({1}))"),
    }
)


def form_of_special(ufunc: np.ufunc) -> Form:
    """The expression of a ufunc of `scipy.special`; an empty one where it is another, or has none."""
    special = sys.modules.get("scipy.special")
    name = ufunc.__name__
    return SPECIAL_FORMS[name] if name in SPECIAL_FORMS and getattr(special, name, None) is ufunc else Form()
