"""Whether this machine can run code that was compiled for a target: it would end the process where it cannot."""

from __future__ import annotations

from metasched.errors import KernelError
from metasched.support.messages import listing
from metasched.target import Target


def lacking_here(target: Target) -> tuple[str, ...]:
    """The instruction sets of a target that this machine lacks, sorted."""
    return Target.detect(threads=1).lacking(target)


def refusal(target: Target, what: str, hint: str) -> KernelError:
    """The error of who calls what was compiled for a target that this machine lacks something of."""
    lacking = listing(lacking_here(target), most=4)
    return KernelError(f"{what} was compiled for {target.name}, and this machine lacks {lacking} of it", hint=hint)
