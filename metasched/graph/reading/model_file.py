"""A model's file, read as data: nothing in it runs. The package `onnx` is imported here, at the first model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from metasched.graph.errors import NetworkError
from metasched.graph.reading.channel_slopes import BROADCAST_OPSET, align_slopes_to_channels
from metasched.graph.reading.mapped_files import MappedFile, message_of_file
from metasched.graph.reading.old_resizing import PLACES_OPSET, keep_old_places
from metasched.support.data_classes import dataclass
from metasched.support.imports import imports
from metasched.support.messages import listing

OLDEST_OPSET = 13

ModelLike: TypeAlias = "str | Path | bytes | Any"


@dataclass(frozen=True)
class ModelFile:
    """A model: its message, a name for it, the folder that its external data is in, and its file.

    `folder` and `content` are None where it is of no file; of one, large `raw_data` are keys of `content`.
    `unconverted` says why a model of an older operator set is read as it is; it is empty where that is not so.
    """

    proto: Any
    name: str
    folder: Path | None
    content: MappedFile | None = None
    unconverted: str = ""


def rereadable_model(model: ModelLike) -> ModelLike:
    """A model that may be read any number of times: of a binary file that is open, its bytes from where it stands.

    Raises NetworkError for a file of text.
    """
    if isinstance(model, str | bytes | Path) or not hasattr(model, "read"):
        return model
    content = model.read()
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise NetworkError(f"{model!r} gives {type(content).__name__}, and not bytes: open it as binary, open(path, 'rb')")


def onnx_module() -> Any:
    """The package `onnx`. Raises NetworkError, which says how to install it."""
    try:
        return imports.module("onnx")
    except ModuleNotFoundError as error:
        raise NetworkError(
            "reading ONNX models needs the package `onnx`", hint="pip install 'metasched[onnx]'"
        ) from error


def read_model(model: ModelLike) -> ModelFile:
    """A model of a path, of the bytes of a file, or of a ModelProto. Raises NetworkError for what is none."""
    onnx = onnx_module()
    if isinstance(model, onnx.ModelProto):
        return _require_model(ModelFile(model, "the model", None))
    if isinstance(model, bytes):
        return _require_model(ModelFile(_parse_model(onnx, model, "the model"), "the model", None))
    if not isinstance(model, str | Path):
        raise NetworkError(
            "a model is a path, the bytes of a file, a binary file that is open or an onnx.ModelProto, and not "
            f"{type(model).__name__}"
        )
    path = Path(model)
    try:
        data, content = message_of_file(path, onnx.ModelProto.DESCRIPTOR)
    except OSError as error:
        raise NetworkError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NetworkError(f"{path} is no ONNX model: {error}") from error
    return _require_model(ModelFile(_parse_model(onnx, data, str(path)), str(path), path.resolve().parent, content))


def _parse_model(onnx: Any, data: bytes, name: str) -> Any:
    errors = imports.module("google.protobuf.message")
    try:
        return onnx.ModelProto.FromString(data)
    except errors.DecodeError as error:
        raise NetworkError(f"{name} is no ONNX model, or is damaged: {error}") from error


def _require_model(model: ModelFile) -> ModelFile:
    if not model.proto.opset_import or not model.proto.HasField("graph"):
        raise NetworkError(f"{model.name} is no ONNX model: it has no graph, or names no operator set")
    _require_texts(model.proto, model.name)
    return _convert_opset(model)


def _convert_opset(model: ModelFile) -> ModelFile:
    """A model of an older operator set as one of the oldest that is read, by ONNX's own converter.

    A model that it cannot convert stays as it is: its nodes are refused where they have changed since.
    """
    opset = max((entry.version for entry in model.proto.opset_import if not entry.domain), default=OLDEST_OPSET)
    if opset >= OLDEST_OPSET:
        return model
    converter = imports.module("onnx.version_converter")
    try:
        made = converter.convert_version(model.proto, OLDEST_OPSET)
        changed = _changed_inputs(model.proto, made)
        if not changed:
            if opset < PLACES_OPSET:
                keep_old_places(made.graph)
            return replace(model, proto=made if opset >= BROADCAST_OPSET else align_slopes_to_channels(made))
        reason = f"it gives {listing(changed)} another type"  # as of `Scan` of opset 8
    except (converter.ConvertError, RuntimeError) as error:
        reason = str(error).strip()
    return replace(
        model, unconverted=f"ONNX's converter could not bring it from opset {opset} to {OLDEST_OPSET}: {reason}"
    )


def _changed_inputs(model: Any, converted: Any) -> list[str]:
    """Inputs that are of other types than before."""
    before = {value.name: value.type for value in model.graph.input}
    return [value.name for value in converted.graph.input if value.name in before and value.type != before[value.name]]


def _require_texts(message: Any, name: str) -> None:
    """Raise NetworkError where a name or another text is not UTF-8: protobuf gives bytes for it, without saying so."""
    for field, value in message.ListFields():
        single = isinstance(value, str | bytes) or hasattr(value, "ListFields")
        several = (value,) if single else value
        if field.type == field.TYPE_STRING:
            wrong = [text for text in several if not isinstance(text, str)]
            if wrong:
                raise NetworkError(f"{name} is damaged: {wrong[0]!r} in `{field.name}` is no text")
        elif field.type == field.TYPE_MESSAGE:
            for part in several:
                _require_texts(part, name)
