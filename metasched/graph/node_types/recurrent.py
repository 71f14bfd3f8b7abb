"""Recurrent layers, step by step.

Products with the inputs of all steps are one product; then each step is a product with what the step before made, and
its gates. Steps are the same programs, so they are the same tasks, however many there are; many are a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Protocol

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.loops.building import LoopElements, LoopFrame, LoopPlaces, StepResults, add_loop
from metasched.graph.loops.unrolled import are_few
from metasched.graph.node_helpers.moved_elements import entry_of, mirror_axis, slice_axes, stack_values
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices, real
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass
from metasched.support.messages import counted

Results = tuple[GraphValue | None, ...]

# Programs of a step, of which most have two.
_PROGRAMS = 2


@dataclass(frozen=True)
class _Activation:
    """An activation as a text of its argument, {0}, and of the numbers {alpha} and {beta}.

    `alpha` and `beta` are what these are where nothing says it; None where it has none.
    """

    text: str
    alpha: float | None = None
    beta: float | None = None


_ACTIVATIONS = {
    "Affine": _Activation("({alpha} * {0} + {beta})", 1.0, 0.0),
    "Elu": _Activation("({0} if {0} >= 0.0 else {alpha} * expm1({0}))", 1.0),
    "HardSigmoid": _Activation("max(0.0, min(1.0, {alpha} * {0} + {beta}))", 0.2, 0.5),
    "LeakyRelu": _Activation("({0} if {0} >= 0.0 else {alpha} * {0})", 0.01),
    "Relu": _Activation("max({0}, 0.0)"),
    "ScaledTanh": _Activation("({alpha} * tanh({beta} * {0}))", 1.0, 1.0),
    "Sigmoid": _Activation("sigmoid({0})"),
    "Softplus": _Activation("(max({0}, 0.0) + log1p(exp(-abs({0}))))"),
    "Softsign": _Activation("({0} / (1.0 + abs({0})))"),
    "Tanh": _Activation("tanh({0})"),
    "ThresholdedRelu": _Activation("({0} if {0} > {alpha} else 0.0)", 1.0),
}


class LayerWeights(Protocol):
    """The weights of a layer in one direction, as far as steps ask for them."""

    def input_products(self, x: GraphValue, bias: GraphValue | None) -> GraphValue:
        """Products of rows of inputs with all gates' weights, and a bias: `f32[rows, gates * hidden]`."""

    def hidden_products(self, hidden: GraphValue, gates: tuple[int, int], added: GraphValue) -> GraphValue:
        """Products of what the step before made with the weights of gates from one to before another, and what is added
        to each: `f32[rows, gates, hidden]`.
        """


@dataclass(frozen=True)
class _Floats:
    """Weights as they are, `f32[gates * hidden, width]` of inputs and `f32[gates, hidden, hidden]` of the step before.

    Gates of that are a dimension of their own, so that the kernel that computes the products may go on with all gates
    of the elements that it has.
    """

    site: NodeSite
    inputs: GraphValue
    recurrent: GraphValue

    def input_products(self, x: GraphValue, bias: GraphValue | None) -> GraphValue:
        type_ = ValueType(DType.F32, (x.shape[0], self.inputs.shape[0]))
        product = f"sum[k < {x.shape[1]}](A[i, k] * B[j, k])"
        stages = [f"Y[i, j] = {product}"]
        if bias is not None:
            stages = [declare_buffer("T", type_), f"T[i, j] = {product}", "Y[i, j] = T[i, j] + C[j]"]
        return self.site.single(stages, type_, A=x, B=self.inputs, C=bias)

    def hidden_products(self, hidden: GraphValue, gates: tuple[int, int], added: GraphValue) -> GraphValue:
        rows, inner = hidden.shape
        weights = self.recurrent
        if gates != (0, weights.shape[0]):
            weights = _rows(self.site, weights, *gates)
        type_ = ValueType(DType.F32, (rows, *weights.shape[:2]))
        own = at("C", ["i", "g", "j"] if added.rank == len(type_.shape) else ["g", "j"])
        stages = [
            declare_buffer("T", type_),
            f"T[i, g, j] = sum[k < {inner}](A[i, k] * B[g, j, k])",
            f"Y[i, g, j] = T[i, g, j] + {own}",
        ]
        return self.site.single(stages, type_, A=hidden, B=weights, C=added)


@dataclass(frozen=True)
class _Layer:
    """A layer in one direction.

    Attributes:
        site: the node.
        inputs: for each step, its products with the weights, and biases: `f32[steps, batch, gates, hidden]`.
        weights: those of what the step before made.
        bias: what is added to products with these, `f32[gates, hidden]`, where it is not among `inputs`.
        peepholes: weights of cells in gates.
        hidden, cells: what the first step begins with; None for zeros.
        active: for each step, which rows of the batch have it, `bool[steps, batch]`; None where all have.
        functions: the activations, as texts with {0}.

    """

    site: NodeSite
    inputs: GraphValue
    weights: LayerWeights
    bias: GraphValue | None
    peepholes: GraphValue | None
    hidden: GraphValue | None
    cells: GraphValue | None
    active: GraphValue | None
    functions: Sequence[str]

    @property
    def type(self) -> ValueType:
        """The type of one step's output."""
        return ValueType(DType.F32, (self.inputs.shape[1], self.inputs.shape[3]))

    @property
    def steps(self) -> int:
        """How many there are."""
        return self.inputs.shape[0]

    def product(self, hidden: GraphValue | None, begin: int, end: int, added: GraphValue) -> GraphValue:
        """Products of what the step before made with some gates' weights, and what is added to each."""
        return added if hidden is None else self.weights.hidden_products(hidden, (begin, end), added)

    def zeros(self) -> GraphValue:
        """What a step begins with that nothing says."""
        return self.site.constant(_zeros(self.type), DType.F32)


# What a step makes: of what is added for it, and what the step before made, hidden and cells.
_Step = Callable[[_Layer, GraphValue, GraphValue | None, GraphValue | None], tuple[GraphValue, GraphValue | None]]


def _rnn_step(
    layer: _Layer, added: GraphValue, hidden: GraphValue | None, cells: GraphValue | None
) -> tuple[GraphValue, GraphValue | None]:
    total = layer.site.view(layer.product(hidden, 0, 1, added), layer.type.shape)
    return layer.site.elementwise(layer.functions[0], total), cells


def _gru_step(
    layer: _Layer, added: GraphValue, hidden: GraphValue | None, cells: GraphValue | None
) -> tuple[GraphValue, GraphValue | None]:
    """Gates are update, reset and new."""
    site = layer.site
    of_gate, of_new = layer.functions
    before = layer.zeros() if hidden is None else hidden
    if layer.bias is not None:
        # The reset gate takes part after the product, so what is added to that is apart.
        products = layer.product(before, 0, 3, layer.bias)
        update, reset = (of_gate.format(f"(A[i, {gate}, j] + B[i, {gate}, j])") for gate in range(2))
        new = of_new.format(f"(A[i, 2, j] + {reset} * B[i, 2, j])")
        return _update_state(layer, new, update, A=added, B=products, C=before), cells
    gates = layer.product(hidden, 0, 2, _gates(site, added, 0, 2))
    update, reset = (of_gate.format(f"A[i, {gate}, j]") for gate in range(2))
    both = site.program(
        [f"Y[i, j] = {update}", f"Z[i, j] = {reset} * C[i, j]"], {"Y": layer.type, "Z": layer.type}, A=gates, C=before
    )
    product = layer.product(both[1], 2, 3, _gates(site, added, 2, 3))
    new = of_new.format("B[i, j]")
    return _update_state(layer, new, "A[i, j]", A=both[0], B=site.view(product, layer.type.shape), C=before), cells


def _update_state(layer: _Layer, new: str, update: str, **given: GraphValue) -> GraphValue:
    """The new state: `new`, and so much of the one before, `C`, as the update gate says."""
    stages = [
        declare_buffer("N", layer.type),
        f"N[i, j] = {new}",
        f"Y[i, j] = N[i, j] + {update} * (C[i, j] - N[i, j])",
    ]
    return layer.site.single(stages, layer.type, **given)


def _lstm_step(
    layer: _Layer, added: GraphValue, hidden: GraphValue | None, cells: GraphValue | None
) -> tuple[GraphValue, GraphValue | None]:
    """Gates are input, output, forget and cell."""
    site, n = layer.site, layer.type.shape[1]
    of_gate, of_cell, of_output = layer.functions
    gates = layer.product(hidden, 0, 4, added)
    before = layer.zeros() if cells is None else cells

    def gate(number: int, seen: str) -> str:
        peephole = "" if layer.peepholes is None else f" + P[{_column_index(number * n)}] * {seen}"
        return of_gate.format(f"(A[i, {number}, j]{peephole})")

    entry, output, forget = gate(0, "C[i, j]"), gate(1, "Y[i, j]"), gate(2, "C[i, j]")
    made = of_cell.format("A[i, 3, j]")
    stages = [
        f"Y[i, j] = {forget} * C[i, j] + {entry} * {made}",
        f"Z[i, j] = {output} * {of_output.format('Y[i, j]')}",
    ]
    after, made_hidden = site.program(stages, {"Y": layer.type, "Z": layer.type}, A=gates, C=before, P=layer.peepholes)
    return made_hidden, after


@dataclass(frozen=True)
class _StepOutputs:
    """What steps make: all of it, `f32[steps, batch, hidden]`, where that is wanted, and the last hidden values and
    cells.
    """

    all: GraphValue | None
    hidden: GraphValue
    cells: GraphValue | None


def _step_by_step(layer: _Layer, kind: LayerKind, *, backwards: bool) -> _StepOutputs:
    """Steps as nodes of their own."""
    hidden, cells = layer.hidden, layer.cells
    made: dict[int, GraphValue] = {}
    for number in range(layer.steps)[:: -1 if backwards else 1]:
        active = None if layer.active is None else entry_of(layer.site, layer.active, number)
        made[number], hidden, cells = _compute_step(
            layer, kind.step, (entry_of(layer.site, layer.inputs, number), active), hidden, cells
        )
    assert hidden is not None
    values = [made[number] for number in sorted(made)]
    return _StepOutputs(stack_values(layer.site, values, 0) if layer.site.wants(0) else None, hidden, cells)


def _build_loop(layer: _Layer, kind: LayerKind, *, backwards: bool) -> _StepOutputs:
    """Steps as a loop."""
    has_cells = kind.cells is not None
    states = [layer.hidden or layer.zeros()] + [layer.cells or layer.zeros()] * has_cells
    rows = [layer.inputs] + ([] if layer.active is None else [layer.active])
    is_wanted = layer.site.wants(0)

    def run(_: str, __: GraphValue, states: Sequence[GraphValue], elements: Sequence[GraphValue]) -> StepResults:
        added, active = (*elements, None)[:2]
        assert added is not None
        made, hidden, cells = _compute_step(
            layer, kind.step, (added, active), states[0], states[1] if has_cells else None
        )
        return StepResults([hidden] if cells is None else [hidden, cells], [made] if is_wanted else [])

    frame = LoopFrame(
        states,
        [LoopElements(row, 0, backwards) for row in rows],
        [LoopPlaces(0, backwards)] * is_wanted,
        layer.steps,
    )
    found = add_loop(layer.site, frame, run)
    return _StepOutputs(found.values[0] if is_wanted else None, found.states[0], found.states[1] if has_cells else None)


def _compute_step(
    layer: _Layer,
    step: _Step,
    given: tuple[GraphValue, GraphValue | None],
    hidden: GraphValue | None,
    cells: GraphValue | None,
) -> tuple[GraphValue, GraphValue, GraphValue | None]:
    """What a step gives and what the next begins with, out of what is added for the step and which rows have it."""
    added, active = given
    made, after = step(layer, added, hidden, cells)
    if active is None:
        return made, made, after
    kept = None if after is None else _select_active(layer, active, after, cells)
    return _select_active(layer, active, made, None), _select_active(layer, active, made, hidden), kept


def _select_active(layer: _Layer, active: GraphValue, new: GraphValue, before: GraphValue | None) -> GraphValue:
    """Select new elements for rows that have a step, and those before, or zero, for the others."""
    other = "0.0" if before is None else "C[i, j]"
    return layer.site.single([f"Y[i, j] = B[i, j] if A[i] else {other}"], layer.type, A=active, B=new, C=before)


class WeightOrder(Enum):
    """Which of two dimensions of a direction's weights is the first."""

    GATES_FIRST = "gates first"
    INPUTS_FIRST = "what they are multiplied with first"


@dataclass(frozen=True)
class LayerKind:
    """A type of layers: how many gates it has, its activations unless others are said, and its step.

    `clipped` are the activations whose arguments a clip bounds. As ONNX Runtime has it, cells that go to an output are
    not among them, of which ONNX says only that a clip is of "the input of activations".
    """

    gates: int
    functions: tuple[str, ...]
    clipped: tuple[int, ...]
    step: _Step
    # Which input holds what cells and peepholes begin with; None where there are none.
    cells: int | None = None
    peepholes: int | None = None


KINDS = {
    "RNN": LayerKind(1, ("Tanh",), (0,), _rnn_step),
    "GRU": LayerKind(3, ("Sigmoid", "Tanh"), (0, 1), _gru_step),
    "LSTM": LayerKind(4, ("Sigmoid", "Tanh", "Tanh"), (0, 1), _lstm_step, 6, 7),
}


@node_type("RNN", "GRU", "LSTM")
def recurrent(site: NodeSite) -> Results:
    kind = KINDS[site.op]
    hidden = int(site.attribute("hidden_size") or site.operand(2).shape[-1])

    def weights(direction: int) -> LayerWeights:
        given, own = (_direction(site, site.operand(number), direction) for number in (1, 2))
        return _Floats(site, given, _reshape(site, own, (kind.gates, hidden, hidden)))

    return layers(site, kind, hidden, weights)


def layers(
    site: NodeSite,
    kind: LayerKind,
    hidden: int,
    weights: Callable[[int], LayerWeights],
    order: WeightOrder = WeightOrder.GATES_FIRST,
) -> Results:
    """What a node of a layer gives, in one direction or two. Raises Unsupported.

    Args:
        site: the node, whose inputs and attributes are those that ONNX's types of layers have.
        kind: what its steps compute.
        hidden: how many hidden values there are.
        weights: those of a direction, by its number.
        order: which dimension of weights is the first.

    """
    x = site.operand(0)
    if x.rank != 3:
        raise Unsupported(f"it takes steps of rows of a batch, and {x.type} has {counted(x.rank, 'dimension')}")
    if site.flag("layout"):
        x = _transpose(site, x, (1, 0, 2))
    steps, batch, width = x.shape
    if steps < 1:
        raise Unsupported("it has no steps")
    if site.flag("input_forget"):
        raise Unsupported("input and forget gates that are one are not known")
    word = site.require_one_of("direction", "forward", ("forward", "reverse", "bidirectional"))
    backwards = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[word]
    _require_shapes(site, kind, (len(backwards), batch, width, hidden), order)
    functions = _functions(site, kind, len(backwards))
    active = _active(site, steps, batch)
    outputs, last, cells = [], [], []
    # A loop goes forwards where the number of its steps may be another one: so it begins with the first element.
    is_compared = site.builder.is_compared
    run = _step_by_step if are_few(steps * _PROGRAMS) and not is_compared else _build_loop
    for number, is_reverse in enumerate(backwards):
        is_mirrored = is_reverse and is_compared
        rows, own = [mirror_axis(site, each, 0) if is_mirrored and each is not None else each for each in (x, active)]
        assert rows is not None
        layer = _layer(site, kind, number, rows, (weights(number), hidden), functions[number], own)
        made = run(layer, kind, backwards=is_reverse and not is_mirrored)
        if made.all is not None:
            outputs.append(mirror_axis(site, made.all, 0) if is_mirrored else made.all)
        last.append(made.hidden)
        cells += [] if made.cells is None else [made.cells]
    dtype, own_layout = x.type.dtype, site.flag("layout")
    ends = [stack_values(site, values, 1 if own_layout else 0) if values else None for values in (last, cells)]
    whole = stack_values(site, outputs, 1) if outputs else None
    if whole is not None and own_layout:
        whole = _transpose(site, whole, (2, 0, 1, 3))
    return tuple(None if value is None else site.cast(value, dtype) for value in (whole, *ends))


def _require_shapes(site: NodeSite, kind: LayerKind, sizes: tuple[int, int, int, int], order: WeightOrder) -> None:
    """Raise Unsupported for an input that does not fit; `sizes` are how many directions there are, the batch's, the
    inputs' in a step, and how many hidden values there are.
    """
    directions, batch, width, hidden = sizes
    rows = kind.gates * hidden
    state = (batch, directions, hidden) if site.flag("layout") else (directions, batch, hidden)
    gates_first = order is WeightOrder.GATES_FIRST
    wanted = {
        1: ("W", (directions, rows, width) if gates_first else (directions, width, rows)),
        2: ("R", (directions, rows, hidden) if gates_first else (directions, hidden, rows)),
        3: ("B", (directions, 2 * rows)),
        4: ("sequence_lens", (batch,)),
        5: ("initial_h", state),
    }
    if kind.cells is not None:
        wanted[kind.cells] = ("initial_c", state)
    if kind.peepholes is not None:
        wanted[kind.peepholes] = ("P", (directions, 3 * hidden))
    for number, (name, shape) in wanted.items():
        given = site.optional(number)
        if given is not None and given.shape != shape:
            fitting = f"[{', '.join(map(str, shape))}] fits {counted(directions, 'direction')}"
            raise Unsupported(
                f"its {name} is {given.type}, and {fitting} of {hidden} hidden values and a batch of {batch}, "
                f"of {width} numbers in each step"
            )


def _layer(
    site: NodeSite,
    kind: LayerKind,
    number: int,
    x: GraphValue,
    held: tuple[LayerWeights, int],
    functions: Sequence[str],
    active: GraphValue | None,
) -> _Layer:
    """The layer of one direction, of its weights and how many hidden values there are."""
    weights, hidden = held
    bias = None if site.optional(3) is None else _direction(site, site.operand(3), number)
    shape, rows = (kind.gates, hidden), kind.gates * hidden
    apart = site.op == "GRU" and site.flag("linear_before_reset")
    inner = site.constant(_zeros(ValueType(DType.F32, (rows,))), DType.F32) if apart else None
    if bias is not None:
        first, second = _rows(site, bias, 0, rows), _rows(site, bias, rows, 2 * rows)
        inner, bias = (second, first) if apart else (None, site.elementwise("{0} + {1}", first, second))
    steps, batch, width = x.shape
    products = weights.input_products(site.view(site.cast(x, DType.F32), (steps * batch, width)), bias)
    return _Layer(
        site=site,
        inputs=site.view(products, (steps, batch, *shape)),
        weights=weights,
        bias=None if inner is None else _reshape(site, inner, shape),
        peepholes=None if kind.peepholes is None else _initial_state(site, kind.peepholes, number, is_state=False),
        hidden=_initial_state(site, 5, number, is_state=True),
        cells=None if kind.cells is None else _initial_state(site, kind.cells, number, is_state=True),
        active=active,
        functions=functions,
    )


def _functions(site: NodeSite, kind: LayerKind, directions: int) -> list[list[str]]:
    """The activations of each direction."""
    said = [name.decode() if isinstance(name, bytes) else name for name in site.attribute("activations") or ()]
    said = said or list(kind.functions) * directions
    unknown = [name for name in said if name not in _ACTIVATIONS]
    if unknown or len(said) < directions * len(kind.functions):
        raise Unsupported(f"its activations are {', '.join(said)}; {', '.join(_ACTIVATIONS)} are known")
    limit, count = float(site.attribute("clip", 0.0)), len(kind.functions)
    clipped = f"max(min({{0}}, {real(limit)}), {real(-limit)})" if limit else "{0}"
    texts = [
        text.replace("{0}", clipped if n % count in kind.clipped else "{0}")
        for n, text in enumerate(_activation_texts(site, [_ACTIVATIONS[name] for name in said]))
    ]
    return [texts[number * count : (number + 1) * count] for number in range(directions)]


def _activation_texts(site: NodeSite, activations: Sequence[_Activation]) -> Iterator[str]:
    """The activations' texts; those that have numbers take the next that is said, each in turn."""
    alphas, betas = (iter(site.attribute(f"activation_{name}") or ()) for name in ("alpha", "beta"))
    for own in activations:
        text = own.text
        for name, said, default in (("alpha", alphas, own.alpha), ("beta", betas, own.beta)):
            if default is not None:
                text = text.replace(f"{{{name}}}", real(float(next(said, default))))
        yield text


def _active(site: NodeSite, steps: int, batch: int) -> GraphValue | None:
    """For each step, which rows have it; None where all rows have all steps."""
    lengths = site.optional(4)
    if lengths is None or (lengths.constant is not None and (lengths.constant >= steps).all()):
        return None
    return site.single(["Y[i, j] = i64(A[j]) > i"], ValueType(DType.BOOL, (steps, batch)), A=lengths)


def _initial_state(site: NodeSite, number: int, direction: int, *, is_state: bool) -> GraphValue | None:
    """The state that a direction begins with; None for zeros."""
    given = site.optional(number)
    if given is None or (given.constant is not None and not given.constant.any()):
        return None
    if is_state and site.flag("layout"):
        given = _transpose(site, given, (1, 0, 2))
    return _direction(site, given, direction)


def _direction(site: NodeSite, value: GraphValue, number: int) -> GraphValue:
    """The part of a direction, in f32."""
    shape = value.shape[1:]
    if value.constant is not None:
        return site.cast(site.constant(value.constant[number], value.type.dtype), DType.F32)
    return site.cast(site.view(slice_axes(site, value, {0: (number, 1, 1)}), shape), DType.F32)


def _column_index(by: int) -> str:
    """The index along columns, moved."""
    return f"j + {by}" if by else "j"


def _zeros(type_: ValueType) -> Array:
    return np.zeros(type_.shape, type_.dtype.numpy)


def _rows(site: NodeSite, value: GraphValue, begin: int, end: int) -> GraphValue:
    """Some rows; of constants without a program."""
    if value.constant is not None:
        return site.constant(value.constant[begin:end], value.type.dtype)
    return slice_axes(site, value, {0: (begin, 1, end - begin)})


def _reshape(site: NodeSite, value: GraphValue, shape: tuple[int, ...]) -> GraphValue:
    """A value in another shape; a constant stays one."""
    if value.constant is not None:
        return site.constant(value.constant.reshape(shape), value.type.dtype)
    return site.view(value, shape)


def _gates(site: NodeSite, value: GraphValue, begin: int, end: int) -> GraphValue:
    """Some gates of what is added."""
    return slice_axes(site, value, {1: (begin, 1, end - begin)})


def _transpose(site: NodeSite, value: GraphValue, order: Sequence[int]) -> GraphValue:
    over = indices(value.rank)
    shape = tuple(value.shape[axis] for axis in order)
    subscripts = [over[list(order).index(axis)] for axis in range(value.rank)]
    return site.single([f"{at('Y', over)} = {at('A', subscripts)}"], ValueType(value.type.dtype, shape), A=value)
