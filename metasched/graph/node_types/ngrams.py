"""How often sequences of some length stand in rows of whole numbers."""

from __future__ import annotations

import numpy as np

from metasched.dtypes import DType
from metasched.graph.builder import GraphValue
from metasched.graph.errors import Unsupported
from metasched.graph.ir import Array
from metasched.graph.registry import call_node, node_type
from metasched.graph.site import NodeSite
from metasched.graph.text import real
from metasched.graph.value_type import ValueType

Results = tuple[GraphValue, ...]

# Programs of one node: one for each length and distance.
_MOST_PROGRAMS = 256
# Columns of a result for each sequence.
_MOST_COLUMNS = 1024


@node_type("TfIdfVectorizer")
def tf_idf_vectorizer(site: NodeSite) -> Results:
    """For each sequence of a pool how often it stands in a row, elements next to one another or some places apart."""
    x = site.operand(0)
    if site.attribute("pool_strings") or not x.type.dtype.is_integer:
        raise Unsupported("it looks for texts, which are no elements of arrays here: give words by their numbers")
    if x.rank not in (1, 2):
        raise Unsupported(f"its input is {x.type}, and no row or rows")
    rows = site.view(x, (1, *x.shape)) if x.rank == 1 else x
    columns = np.array(site.require_attribute("ngram_indexes"), np.int64)
    if not columns.size or columns.min() < 0:
        raise Unsupported("its `ngram_indexes` are no columns of a result")
    counts = _put_in_columns(site, _count_sequences(site, site.cast(rows, DType.I64), len(columns)), columns)
    made = _weigh(site, counts)
    return (site.view(made, made.shape[1:]) if x.rank == 1 else made,)


def _sequences(site: NodeSite, count: int) -> list[Array]:
    """The sequences of each length from 1 on, (sequences, length)."""
    pool = np.array(site.attribute("pool_int64s", ()), np.int64)
    begins = [int(n) for n in site.require_attribute("ngram_counts")]
    ends = [*begins[1:], len(pool)]
    if any(not 0 <= begin <= end <= len(pool) for begin, end in zip(begins, ends, strict=True)):
        raise Unsupported(f"its `ngram_counts`, {begins}, are no parts of a pool of {len(pool)} numbers")
    found = []
    for length, (begin, end) in enumerate(zip(begins, ends, strict=True), 1):
        whole = (end - begin) // length
        found.append(pool[begin : begin + whole * length].reshape(whole, length))
    if sum(map(len, found)) != count:
        raise Unsupported(f"its pool has {sum(map(len, found))} sequences, and it has {count} `ngram_indexes`")
    return found


def _count_sequences(site: NodeSite, x: GraphValue, count: int) -> GraphValue:
    """How often each sequence of the pool stands in each row, (rows, sequences); those of other lengths never."""
    least, most = (int(site.require_attribute(f"{name}_gram_length")) for name in ("min", "max"))
    apart = range(1, int(site.require_attribute("max_skip_count")) + 2)
    found = _sequences(site, count)
    rows, elements = x.shape
    if len(found) * len(apart) > _MOST_PROGRAMS:
        raise Unsupported(f"it looks for sequences of {len(found)} lengths with {len(apart)} distances")
    parts = []
    for length, pool in enumerate(found, 1):
        if not len(pool):
            continue
        total = site.constant(np.zeros((rows, len(pool)), np.float32))
        distances = apart[:1] if length == 1 else apart
        for distance in distances if least <= length <= most else ():
            starts = elements - (length - 1) * distance
            if starts > 0:
                total = site.elementwise("{0} + {1}", total, _count_at_distance(site, x, pool, distance))
        parts.append(total)
    return call_node(site, "Concat", *parts, axis=1)


def _count_at_distance(site: NodeSite, x: GraphValue, pool: Array, distance: int) -> GraphValue:
    rows, elements = x.shape
    count, length = pool.shape
    equal = " and ".join(f"X[n, p + {k * distance}] == K[g, {k}]" for k in range(length))
    text = f"Y[n, g] = sum[p < {elements - (length - 1) * distance}](1.0 if {equal} else 0.0)"
    return site.single([text], ValueType(DType.F32, (rows, count)), X=x, K=site.constant(pool))


def _put_in_columns(site: NodeSite, counts: GraphValue, columns: Array) -> GraphValue:
    """Counts in the columns that sequences have; several may have one. Others are zeros."""
    rows, count = counts.shape
    width = int(columns.max()) + 1
    if width > _MOST_COLUMNS * max(count, 1):
        raise Unsupported(f"its result has {width} columns for {count} sequences")
    if len(np.unique(columns)) == count:
        places = np.full(width, count, np.int64)
        places[columns] = np.arange(count)
        text = f"Y[n, c] = A[n, min(max(P[c], 0), {count - 1})] if P[c] < {count} else 0.0"
        return site.single([text], ValueType(DType.F32, (rows, width)), A=counts, P=site.constant(places))
    text = f"Y[n, c] = sum[g < {count} if P[g] == c](A[n, g])"
    return site.single([text], ValueType(DType.F32, (rows, width)), A=counts, P=site.constant(columns))


def _weigh(site: NodeSite, counts: GraphValue) -> GraphValue:
    mode = site.require_one_of("mode", "TF", ("TF", "IDF", "TFIDF"))
    if mode == "TF":
        return counts
    weights = np.array(site.attribute("weights", ()), np.float32)
    width = counts.shape[1]
    if weights.size not in (0, width):
        raise Unsupported(f"it has {weights.size} weights, and its result {width} columns")
    given = site.constant(weights if weights.size else np.ones(width, np.float32))
    text = "{1} if {0} > 0.0 else " + real(0.0) if mode == "IDF" else "{0} * {1}"
    return site.with_arguments(text, (counts, given), DType.F32)
