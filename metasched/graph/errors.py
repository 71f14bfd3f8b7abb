"""What is wrong with a model, and what of it cannot be expressed."""

from __future__ import annotations

from dataclasses import field
from textwrap import indent

from metasched.errors import MetaschedError
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted, with_hint

_MOST_SHOWN_REFUSALS = 40


class NetworkError(MetaschedError):
    """A model that cannot be read: its file is damaged, or says what does not fit together."""


@dataclass(frozen=True)
class Refusal:
    """A node that cannot be expressed as programs, and why.

    Attributes:
        node: its name in the model, or that of its first output.
        op: its type, with the domain where it is not ONNX's own.
        opset: the version of the operator set that the model takes it from; 0 for an input, or where it imports none.
        inputs: types and shapes of its inputs, as far as they are known.
        reason: why it is refused.
        unbound: inputs of the network whose values, given at load, would settle it.
        cause: the error that it came to, where the node was not refused for a reason of its own.

    """

    node: str
    op: str
    opset: int
    inputs: tuple[str, ...]
    reason: str
    unbound: tuple[str, ...] = ()
    cause: BaseException | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        opset = f" (opset {self.opset})" if self.opset else ""
        inputs = f"({', '.join(self.inputs)})" if self.inputs else ""
        given = ", ".join(f'"{name}": ...' for name in self.unbound)
        hint = f"give what decides it at load: values={{{given}}}" if given else ""
        return with_hint(f"{self.op}{opset} `{self.node}`{inputs}: {self.reason}", hint)


class RefusedModel(NetworkError):
    """A model with nodes that cannot be expressed in the language.

    `refusals` has all of them: each with the node, its types and the reason. A note in the message says what is to be
    known besides, such as why the model was not converted to a newer operator set. The error is raised from the first
    one that a node came to, if any did.
    """

    def __init__(self, model: str, refusals: tuple[Refusal, ...], note: str = "", *, hint: str = "") -> None:
        self.refusals = refusals
        self._said = (model, refusals, note)
        shown = [indent(str(refusal), "  ") for refusal in refusals[:_MOST_SHOWN_REFUSALS]]
        if len(refusals) > _MOST_SHOWN_REFUSALS:
            shown.append(f"  and {len(refusals) - _MOST_SHOWN_REFUSALS} more: see `refusals` of this error")
        shown += [f"  note: {note}"] if note else []
        super().__init__(
            f"{model} has {counted(len(refusals), 'node')} that cannot be expressed:\n" + "\n".join(shown), hint=hint
        )

    def with_hint(self, hint: str) -> RefusedModel:
        """The same error, which says what to do."""
        return RefusedModel(*self._said, hint=hint)

    @property
    def cause(self) -> BaseException | None:
        """The first error that a node came to."""
        return next((refusal.cause for refusal in self.refusals if refusal.cause is not None), None)

    @property
    def unbound(self) -> tuple[str, ...]:
        """Inputs of the network whose values, given at load, would settle some of these."""
        return tuple(dict.fromkeys(name for refusal in self.refusals for name in refusal.unbound))


class Unsupported(Exception):
    """Raised while a node is turned into programs, where it cannot be: the text is the reason of its refusal."""

    def __init__(self, reason: str, unbound: tuple[str, ...] = ()) -> None:
        self.unbound = unbound
        super().__init__(reason)


class BodyRefused(Exception):
    """Raised where a node of a graph that another node runs is refused, which the model's refusals say already."""
