"""Networks that are compared, with random weights: made by the interpreter that has PyTorch, and exported to ONNX.

`python -m benchmarks.network_models NAME FILE.onnx` writes the model, and FILE.npz beside it with its inputs by name.
It needs PyTorch, torchvision, transformers and onnxscript, and nothing of the project. The same name gives the same
weights in every process.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Made = tuple[Any, Any]
_OPSET = 18
_SEED = 0


def make_model(name: str) -> Made:
    """A network of `NETWORKS` in inference mode, and an input of it."""
    import torch  # type: ignore[import-not-found]

    if not _torchvision_fits():
        _declare_operators_of_torchvision()
    torch.manual_seed(_SEED)
    module, given = NETWORKS[name]()
    return module.eval(), given


def _image(model: str) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        import torchvision.models  # type: ignore[import-not-found]

        return getattr(torchvision.models, model)(weights=None), torch.randn(1, 3, 224, 224)

    return make


def _bert(tokens: int) -> Callable[[], Made]:
    def make() -> Made:
        import torch
        from transformers import BertConfig, BertModel  # type: ignore[import-not-found]

        class Hidden(torch.nn.Module):  # type: ignore[misc]
            """The last hidden state alone, of ids alone."""

            def __init__(self, model: Any) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: Any) -> Any:
                return self.model(ids).last_hidden_state

        module = Hidden(BertModel(BertConfig(attn_implementation="eager")))
        return module, torch.randint(0, 30000, (1, tokens))

    return make


NETWORKS: Mapping[str, Callable[[], Made]] = {
    "resnet50": _image("resnet50"),
    "mobilenet_v2": _image("mobilenet_v2"),
    "bert_base_128": _bert(128),
}


def _torchvision_fits() -> bool:
    """Whether torchvision's own build has its operators. Where it has, declaring them would end the process."""
    try:
        import torchvision  # noqa: F401
    except RuntimeError:  # its Python part asks for an operator that no library has declared
        return False
    return True


def _declare_operators_of_torchvision() -> None:
    """Names of operators that torchvision looks up when it is imported, where its own build does not fit PyTorch.

    None of them is called.
    """
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms", "roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
        for whole in (name, f"_{name}_backward"):
            try:
                library.define(f"{whole}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            except RuntimeError:  # it is there
                continue
    _KEPT_LIBRARIES.append(library)


_KEPT_LIBRARIES: list[Any] = []  # a library that is let go takes its names along


def main() -> None:
    import torch

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    name, file = sys.argv[1], Path(sys.argv[2])
    module, given = make_model(name)
    with torch.no_grad():
        exported = torch.onnx.export(module, (given,), dynamo=True, opset_version=_OPSET, verbose=False)
    exported.save(str(file), external_data=True)
    np.savez(file.with_suffix(".npz"), **{exported.model.graph.inputs[0].name: given.numpy()})


if __name__ == "__main__":
    main()
