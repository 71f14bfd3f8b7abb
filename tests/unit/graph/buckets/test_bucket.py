"""Models that have only sizes in steps run on a bucket as at just a size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import metasched as ms
from metasched.runtime.export.network_loader import ExportedNetwork
from tests.support.stepped_models import STEPPED, image, stepped_model

# Positions count along both sizes at once: each size has a network of its own.
ALONE = "pooled, and put back by positions"


@pytest.mark.parametrize("name", [name for name in STEPPED if name != ALONE])
def test_models_of_multiples_run_on_a_bucket(name: str) -> None:
    step, model = STEPPED[name][0], stepped_model(name)
    sizes = ms.SizeRange(step, 4 * step, buckets=(4 * step,), step=step)
    net = ms.load_onnx(model, h=sizes, w=sizes, target=ms.Target.detect(threads=1))
    assert isinstance(net, ms.NetworkOfSizes)
    own = net.bucket(h=4 * step, w=4 * step)
    assert own is not None
    reference = ReferenceEvaluator(model)
    for h, w in ((2, 4), (3, 2), (4, 3)):
        x = image(model, h * step, w * step)
        assert own.sizes({"h": h * step, "w": w * step}) is not None
        found = net(x)
        for one, expected in zip(
            found if isinstance(found, tuple) else (found,), reference.run(None, {"x": x}), strict=True
        ):
            np.testing.assert_allclose(one, expected, rtol=2e-4, atol=2e-5)
    assert own.forms()
    if name == "feature pyramid":
        assert [str(type_) for type_ in net.outputs.values()][1:] == ["f32[1, 2, h/4, w/4]", "f32[1, 2, h/8, w/8]"]


def test_models_of_multiples_run_on_networks_of_their_sizes() -> None:
    model = stepped_model(ALONE)
    net = ms.load_onnx(model, h=range(2, 7, 2), w=range(2, 7, 2), target=ms.Target.detect(threads=1))
    for h, w in ((2, 6), (6, 4)):
        x = image(model, h, w)
        np.testing.assert_array_equal(net(x), ReferenceEvaluator(model).run(None, {"x": x})[0])


def test_an_export_has_the_sizes_in_steps(tmp_path: Path) -> None:
    """Also that of one step, which is divided to one, and so has a network of its own."""
    model = stepped_model("pixels shuffled")
    net = ms.load_onnx(model, h=ms.SizeRange(2, 10, buckets=(10,), step=2), w=4, target=ms.Target.detect(threads=1))
    run = ExportedNetwork(net.export(tmp_path / "even"))
    for h in (2, 4, 6, 8, 10):
        np.testing.assert_array_equal(run(image(model, h, 4)), net(image(model, h, 4)))
    with pytest.raises(
        ValueError, match=r"sizes: \{'h': 7\}; it takes `h` from 2 to 10 in steps of 2; the nearest of `h` are 6 and 8$"
    ):
        run(image(model, 7, 4))
    with pytest.raises(ValueError, match=r"from 2 to 10 in steps of 2$"):
        run(image(model, 12, 4))
