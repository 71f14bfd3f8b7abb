"""Recurrent layers of bytes that ONNX Runtime's quantiser writes."""

from __future__ import annotations

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes
from metasched.graph.node_types.microsoft_products import product_of_bytes, quantise_by_range
from metasched.graph.node_types.recurrent import KINDS, WeightOrder, layers
from metasched.graph.registry import NodeForm, node_type
from metasched.graph.site import NodeSite
from metasched.support.data_classes import dataclass

Results = tuple[GraphValue | None, ...]

_LAYER = {
    "activation_alpha": list,
    "activation_beta": list,
    "activations": list,
    "clip": float,
    "direction": "forward",
    "hidden_size": int,
    "input_forget": 0,
}
# Where scale and zero point are of the weights of inputs, and of those of the step before.
_OF_INPUTS, _OF_HIDDEN = 8, 10


@dataclass(frozen=True)
class _Matrix:
    """Weights, `i8[inner, gates * hidden]` or `u8`; scale and zero point are one for all, or one for each column."""

    elements: GraphValue
    scale: GraphValue
    zero: GraphValue

    def times(self, site: NodeSite, x: GraphValue, added: GraphValue | None) -> GraphValue:
        """Rows, as bytes by the range of all their elements, times the matrix, and what is added to each."""
        rows, scale, zero = quantise_by_range(site, x)
        return product_of_bytes(site, (rows, self.elements), (scale, self.scale), (zero, self.zero), added)


@dataclass(frozen=True)
class _Bytes:
    """The weights of a layer in one direction."""

    site: NodeSite
    inputs: _Matrix
    recurrent: _Matrix

    def input_products(self, x: GraphValue, bias: GraphValue | None) -> GraphValue:
        return self.inputs.times(self.site, x, bias)

    def hidden_products(self, hidden: GraphValue, gates: tuple[int, int], added: GraphValue) -> GraphValue:
        begin, end = gates
        shape = (hidden.shape[0], end - begin, hidden.shape[1])
        columns = self.recurrent.elements.shape[1]
        assert (begin, shape[1] * shape[2]) == (0, columns), "a step of an LSTM has all gates at once"
        flat = self.site.view(added, (*added.shape[:-2], columns))
        return self.site.view(self.recurrent.times(self.site, hidden, flat), shape)


@node_type("com.microsoft:DynamicQuantizeLSTM", form=NodeForm((12, 12), _LAYER))
def lstm_of_bytes(site: NodeSite) -> Results:
    """An LSTM whose inputs and hidden values are quantised in each call: the inputs of all steps by one range."""
    hidden = int(site.attribute("hidden_size") or site.operand(2).shape[1])
    for number, scale in ((1, _OF_INPUTS), (2, _OF_HIDDEN)):
        _require_scales(site, number, scale)

    def weights(direction: int) -> _Bytes:
        of_inputs, of_hidden = (
            _Matrix(*(_direction_part(site, site.operand(n), direction) for n in (number, scale, scale + 1)))
            for number, scale in ((1, _OF_INPUTS), (2, _OF_HIDDEN))
        )
        return _Bytes(site, of_inputs, of_hidden)

    return layers(site, KINDS["LSTM"], hidden, weights, WeightOrder.INPUTS_FIRST)


def _require_scales(site: NodeSite, number: int, scale: int) -> None:
    """Raise Unsupported where scales and zero points of weights are not one for a direction or one for each column."""
    weights = site.operand(number)
    if weights.rank != 3 or weights.type.dtype not in (DType.I8, DType.U8):
        raise Unsupported(f"its weights are {weights.type}, and not bytes of directions, rows and columns")
    directions, _, columns = weights.shape
    for given in (site.operand(scale), site.operand(scale + 1)):
        if given.shape not in ((directions,), (directions, 1), (directions, columns)):
            raise Unsupported(
                f"scales and zero points of {weights.type} are one for each direction or column, and not {given.type}"
            )


def _direction_part(site: NodeSite, value: GraphValue, number: int) -> GraphValue:
    if value.constant is not None:
        return site.constant(value.constant[number], value.type.dtype)
    return site.view(slice_axes(site, value, {0: (number, 1, 1)}), value.shape[1:])
