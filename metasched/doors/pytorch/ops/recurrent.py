"""Recurrent layers, which PyTorch traces where `torch._dynamo.config.allow_rnn` is set; one of an LSTM is one node."""

from __future__ import annotations

from collections.abc import Sequence

from metasched.doors.pytorch.registry import aten
from metasched.doors.pytorch.site import AtenSite
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.node_helpers.moved_elements import slice_axes

_LSTM = 2
# PyTorch's gates are input, forget, cell, output; ONNX's are input, output, forget, cell.
_GATES = (0, 3, 1, 2)


@aten("mkldnn_rnn_layer")
def recurrent_layer(
    site: AtenSite,
    x: GraphValue,
    input_weight: GraphValue,
    hidden_weight: GraphValue,
    input_bias: GraphValue,
    hidden_bias: GraphValue,
    hidden: GraphValue,
    cell: GraphValue,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden_size: int,
    num_layers: int,
    has_biases: bool,
    bidirectional: bool,
    batch_first: bool,
    train: bool,
) -> tuple[GraphValue | None, ...]:
    """One direction of an LSTM: `x` is (time, batch, channel)."""
    site.require_unused(3)
    if mode != _LSTM or num_layers != 1 or batch_sizes or train:
        raise Unsupported("it is no layer of an LSTM whose sequences have one length")
    steps, batch, _ = x.shape
    weights = [_reorder_gates(site, w, hidden_size) for w in (input_weight, hidden_weight)]
    biases = None
    if has_biases:
        parts = [_reorder_gates(site, b, hidden_size) for b in (input_bias, hidden_bias)]
        biases = site.call("Concat", *parts, axis=1)
    begun = [site.nodes.view(state, (1, batch, hidden_size)) for state in (hidden, cell)]
    made = site.nodes.call_outputs(
        "LSTM",
        x,
        *weights,
        biases,
        None,
        *begun,
        outputs=3,
        hidden_size=hidden_size,
        direction="reverse" if reverse else "forward",
    )
    shapes = ((steps, batch, hidden_size), *(type_.shape for type_ in site.types[1:3]))
    return (*(site.nodes.view(value, shape) for value, shape in zip(made, shapes, strict=True) if value), None)


def _reorder_gates(site: AtenSite, weight: GraphValue, size: int) -> GraphValue:
    """Weights of the gates in ONNX's order, with a dimension for the direction."""
    node = site.nodes.site("Slice")
    parts = [slice_axes(node, weight, {0: (gate * size, 1, size)}) for gate in _GATES]
    joined = site.call("Concat", *parts, axis=0)
    return site.nodes.view(joined, (1, *joined.shape))
