"""Categories as numbers and as columns of zeros and ones. Categories that are texts are refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.registry import node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import at, declare_buffer, indices
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue | None, ...]

_TEXTS = (
    "it reads or writes texts, which are no elements of arrays here: encode categories as numbers before the model, "
    "and export what comes after that"
)
# Places of a table for each key that it has, where keys are whole numbers that are not all there.
_MOST_PLACES_A_KEY = 8
# NaN finds the key NaN from this version on, as runtimes have it.
_NAN_IS_KEY = 4


@node_type(
    "ai.onnx.ml:CategoryMapper", "ai.onnx.ml:DictVectorizer", "ai.onnx.ml:CastMap", "StringNormalizer", "StringSplit"
)
def refuse_texts(site: NodeSite) -> Results:
    """Nodes of texts and of maps alone."""
    del site
    raise Unsupported(_TEXTS)


@node_type("ai.onnx.ml:OneHotEncoder")
def one_hot_encoder(site: NodeSite) -> Results:
    """One in the column of an element's category, and zero in the others; zeros where it is of none."""
    x, categories = site.operand(0), np.array(site.attribute("cats_int64s", ()), np.int64)
    if not categories.size:
        raise Unsupported(_TEXTS)
    wide = DType.F64 if x.type.dtype.is_float else DType.I64
    over = indices(x.rank + 1)
    column = over[-1]
    text = f"{at('Y', over)} = 1.0 if {wide}({at('X', over[:-1])}) == C[{column}] else 0.0"
    type_ = ValueType(DType.F32, (*x.shape, len(categories)))
    return (site.single([text], type_, X=x, C=site.constant(categories.astype(wide.numpy), wide)),)


@node_type("ai.onnx.ml:LabelEncoder")
def label_encoder(site: NodeSite) -> Results:
    """The value that stands beside an element in a table, or another one where it does not stand there."""
    x = site.operand(0)
    keys = _listed(site, "keys")
    values = _listed(site, "values")
    if keys is None or values is None:
        raise Unsupported(_TEXTS)
    if len(keys) != len(values) or not len(keys):
        raise Unsupported(f"it has {len(keys)} keys, and {len(values)} values")
    default = _default(site, values)
    lowest = _lowest_of_table(x.type.dtype, keys)
    if lowest is None:
        return (_pick(site, _find(site, x, keys), 0, np.arange(len(keys)), values, default),)
    return (_pick(site, x, lowest, keys.astype(np.int64) - lowest, values, default),)


def _lowest_of_table(dtype: DType, keys: Array) -> int | None:
    """What the first place of a table stands for that has one for each number between the keys; None where keys are no
    whole numbers, or too far apart. It is zero where that costs little: more tables are alike then.
    """
    if not (np.issubdtype(keys.dtype, np.integer) and dtype.is_integer):
        return None
    low, high = int(keys.min()), int(keys.max())
    if high - low >= _MOST_PLACES_A_KEY * len(keys):
        return None
    return 0 if 0 <= low <= high - low else low


def _pick(site: NodeSite, x: GraphValue, lowest: int, places: Array, values: Array, default: float) -> GraphValue:
    """The value at the place of each element in a table whose first place stands for `lowest`; the default elsewhere.

    The table has as many places as a power of two: those of many small trees, say, are alike then, and made once.
    """
    size = 1 << int(places.max()).bit_length()
    table = np.full(size + 1, default, values.dtype)
    table[places[::-1]] = values[::-1]
    over = indices(x.rank)
    element = f"i64({at('X', over)})" + (f" - ({lowest})" if lowest else "")
    stages = [
        declare_buffer("Q", ValueType(DType.I64, x.shape)),
        f"{at('Q', over)} = {element} if {element} >= 0 and {element} < {size} else {size}",
        f"{at('Y', over)} = V[min(max({at('Q', over)}, 0), {size})]",
    ]
    given = site.constant(table)
    return site.single(stages, ValueType(given.type.dtype, x.shape), X=x, V=given)


def _listed(site: NodeSite, what: str) -> Array | None:
    """The keys or values of a node; None where they are texts."""
    given = site.attribute(f"{what}_tensor")
    if given is not None:
        return np.asarray(given).reshape(-1)
    for name, dtype in (("int64s", np.int64), ("floats", np.float32)):
        numbers: Sequence[float] = site.attribute(f"{what}_{name}", ())
        if len(numbers):
            return np.array(numbers, dtype)
    return None


def _default(site: NodeSite, values: Array) -> float:
    given = site.attribute("default_tensor")
    if given is not None and site.attribute("values_tensor") is not None:
        return float(np.asarray(given).reshape(-1)[0])
    if np.issubdtype(values.dtype, np.integer):
        return int(site.attribute("default_int64", -1))
    return float(site.attribute("default_float", -0.0))


def _find(site: NodeSite, x: GraphValue, keys: Array) -> GraphValue:
    """The place of each element among keys, the first one of equal keys; -1 or less where it is not there."""
    wide = DType.F64 if x.type.dtype.is_float else DType.I64
    over = indices(x.rank)
    element, key = f"{wide}({at('X', over)})", "K[r]"
    text = f"{at('Y', over)} = max[r < {len(keys)} if {element} == {key}](N[r])"
    numbers = -np.arange(len(keys), dtype=np.int64)
    given = {"K": site.constant(keys.astype(wide.numpy), wide), "N": site.constant(numbers)}
    found = site.single([text], ValueType(DType.I64, x.shape), X=x, **given)
    place = site.elementwise(f"0 - {{0}} if {{0}} > {-len(keys)} else -1", found)
    takes_nan = site.opset >= _NAN_IS_KEY and x.type.dtype.is_float and keys.dtype.kind == "f"
    nan = np.flatnonzero(np.isnan(keys)).tolist() if takes_nan else []
    return site.elementwise(f"{nan[0]} if {{1}} != {{1}} else {{0}}", place, x) if nan else place


@node_type("ai.onnx.ml:ZipMap")
def zip_map(site: NodeSite) -> Results:
    """The scores as they are: a column for each class, in the order of the labels, where other runtimes give a list of
    dictionaries.
    """
    x = site.operand(0)
    labels = site.attribute("classlabels_int64s", ()) or site.attribute("classlabels_strings", ())
    if x.rank != 2 or x.shape[1] != len(labels):
        raise Unsupported(f"it has {len(labels)} labels, and its input is {x.type}")
    return (x,)
