"""A small decoder with caches of fixed capacity, as ONNX and in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
from onnx import numpy_helper


@dataclass(frozen=True)
class Decoder:
    """Sizes of a decoder; `n` tokens are computed at a time, in caches with room for `room`."""

    layers: int = 2
    heads: int = 2
    width: int = 16
    words: int = 11
    room: int = 12

    @property
    def head(self) -> int:
        return self.width // self.heads

    def weights(self) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(7)
        made: dict[str, tuple[int, ...]] = {"emb": (self.words, self.width), "where": (self.room, self.width)}
        for layer in range(self.layers):
            made |= {f"{name}{layer}": (self.width, self.width) for name in ("wq", "wk", "wv", "wo")}
            made |= {f"up{layer}": (self.width, 2 * self.width), f"down{layer}": (2 * self.width, self.width)}
            made |= {f"scale{layer}": (self.width,)}
        return {name: (rng.standard_normal(shape) * 0.4).astype(np.float32) for name, shape in made.items()}

    @property
    def states(self) -> dict[str, str]:
        """Inputs and outputs of the caches."""
        return {f"{name}{layer}": f"{name}{layer}_next" for layer in range(self.layers) for name in "kv"}

    def model(self, n: int) -> Any:
        """The model of `n` tokens at a position, of opset 24."""
        cache = f"float[1, {self.heads}, {self.room}, {self.head}]"
        inputs = ", ".join([f"int64[{n}] ids", "int64[1] pos", *(f"{cache} {name}" for name in self.states)])
        outputs = ", ".join(["logits", *self.states.values()])
        return self._with_weights(
            f"""<ir_version: 10, opset_import: ["": 24]>
        decoder ({inputs}) => ({outputs})
        <int64[{n}] steps = {{{", ".join(map(str, range(n)))}}},
         int64[{self.room}] cells = {{{", ".join(map(str, range(self.room)))}}},
         int64[4] split = {{1, {n}, {self.heads}, {self.head}}}, int64[2] flat = {{{n}, {self.width}}},
         int64[2] column = {{{n}, 1}}, float low = {{-1e30}}, float root = {{{self.head**0.5}}}> {{
            at = Add(steps, pos)
            word = Gather(emb, ids)
            place = Gather(where, at)
            x0 = Add(word, place)
            rows = Reshape(at, column)
            seen = LessOrEqual(cells, rows)
            {"".join(self._layer(layer, "TensorScatter<axis=2>({cache}, {new}, pos)") for layer in range(self.layers))}
            turned = Transpose(emb)
            logits = MatMul(x{self.layers}, turned)
        }}"""
        )

    def growing_model(self) -> Any:
        """The model of `seq` tokens after `past`, whose caches are longer after each call, of opset 22."""
        cache = f"float[1, {self.heads}, past, {self.head}]"
        inputs = ", ".join(["int64[seq] ids", *(f"{cache} {name}" for name in self.states)])
        outputs = ", ".join(["logits", *self.states.values()])
        return self._with_weights(
            f"""<ir_version: 10, opset_import: ["": 22]>
        decoder ({inputs}) => ({outputs})
        <int64 zero = {{0}}, int64 one = {{1}}, int64[4] split = {{1, -1, {self.heads}, {self.head}}},
         int64[2] flat = {{-1, {self.width}}}, int64[2] column = {{-1, 1}}, float low = {{-1e30}},
         float root = {{{self.head**0.5}}}> {{
            shape = Shape<start=2, end=3>(k0)
            past_length = Squeeze(shape)
            count = Size(ids)
            total = Add(past_length, count)
            at = Range(past_length, total, one)
            cells = Range(zero, total, one)
            word = Gather(emb, ids)
            place = Gather(where, at)
            x0 = Add(word, place)
            rows = Reshape(at, column)
            seen = LessOrEqual(cells, rows)
            {"".join(self._layer(layer, "Concat<axis=2>({cache}, {new})") for layer in range(self.layers))}
            turned = Transpose(emb)
            logits = MatMul(x{self.layers}, turned)
        }}"""
        )

    def _with_weights(self, text: str) -> Any:
        model = onnx.parser.parse_model(text)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in self.weights().items())
        return model

    def _layer(self, n: int, next_: str) -> str:
        heads = "".join(
            f"""
            {c}a{n} = MatMul(h{n}, w{c}{n})
            {c}b{n} = Reshape({c}a{n}, split)
            {c}c{n} = Transpose<perm=[0, 2, 1, 3]>({c}b{n})"""
            for c in "qkv"
        )
        return f"""
            h{n} = LayerNormalization(x{n}, scale{n}){heads}
            k{n}_next = {next_.format(cache=f"k{n}", new=f"kc{n}")}
            v{n}_next = {next_.format(cache=f"v{n}", new=f"vc{n}")}
            kt{n} = Transpose<perm=[0, 1, 3, 2]>(k{n}_next)
            s{n} = MatMul(qc{n}, kt{n})
            t{n} = Div(s{n}, root)
            m{n} = Where(seen, t{n}, low)
            p{n} = Softmax<axis=-1>(m{n})
            o{n} = MatMul(p{n}, v{n}_next)
            ot{n} = Transpose<perm=[0, 2, 1, 3]>(o{n})
            of{n} = Reshape(ot{n}, flat)
            y{n} = MatMul(of{n}, wo{n})
            z{n} = Add(x{n}, y{n})
            u{n} = MatMul(z{n}, up{n})
            r{n} = Relu(u{n})
            d{n} = MatMul(r{n}, down{n})
            x{n + 1} = Add(z{n}, d{n})
            """

    def whole(self, ids: np.ndarray) -> np.ndarray:
        """The logits of a whole sequence at once, in NumPy and without caches."""
        w = {name: array.astype(np.float64) for name, array in self.weights().items()}
        x = w["emb"][ids] + w["where"][: len(ids)]
        for n in range(self.layers):
            apart = x - x.mean(-1, keepdims=True)
            h = apart / np.sqrt((apart**2).mean(-1, keepdims=True) + 1e-5) * w[f"scale{n}"]
            q, k, v = ((h @ w[f"w{c}{n}"]).reshape(len(ids), self.heads, self.head).transpose(1, 0, 2) for c in "qkv")
            s = q @ k.transpose(0, 2, 1) / self.head**0.5
            s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            o = (p / p.sum(-1, keepdims=True)) @ v
            x = x + o.transpose(1, 0, 2).reshape(len(ids), self.width) @ w[f"wo{n}"]
            x = x + np.maximum(x @ w[f"up{n}"], 0) @ w[f"down{n}"]
        return np.asarray(x @ w["emb"].T)
