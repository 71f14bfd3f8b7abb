"""Arguments that the commands of `metasched net` share: a model, what is bound of it, and its inputs."""

from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from metasched.cli.arguments import UsageError, add_db, add_json, add_threads, seed, timed_target
from metasched.cli.command import Console
from metasched.graph.buckets.size_range import SizeRange
from metasched.graph.inputs import random_inputs
from metasched.graph.precision.choice import ProductPrecision
from metasched.graph.value_type import ValueType
from metasched.support.data_classes import dataclass

if TYPE_CHECKING:
    from metasched.database.database_registry import DatabaseURLs
    from metasched.graph.growing.sizes import GrowingSize
    from metasched.graph.network import Network
    from metasched.graph.network_of_sizes import NetworkOfSizes

Array = np.ndarray[Any, Any]


def add_model(parser: ArgumentParser) -> None:
    """The model, its sizes and values, precision, threads and `--json`."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model; its external data is read from its folder")
    _add_sizes(parser)
    _add_input_options(parser)
    known = ", ".join(each.value for each in ProductPrecision)
    parser.add_argument(
        "--precision",
        default=ProductPrecision.F32.value,
        metavar="TYPE",
        help=f"what products are computed from: {known} (default: %(default)s); a quantised model has its own",
    )
    add_threads(parser)
    add_json(parser)


def _add_sizes(parser: ArgumentParser) -> None:
    """What is said of sizes that the model leaves open."""
    parser.add_argument(
        "-D",
        dest="sizes",
        metavar="NAME=N | NAME=LOW:HIGH[/STEP]",
        type=_size,
        action="append",
        default=[],
        help="a size that the model leaves open, by its name in it, such as -D batch=1; a range, seq=1:512, runs on "
        "kernels for buckets of sizes, which seq=1:64:512 says by the largest of each; of h=32:512/32, there is "
        "only every 32nd; may be repeated",
    )
    parser.add_argument(
        "--shape",
        dest="shapes",
        metavar="INPUT=N,N,...",
        type=_shape,
        action="append",
        default=[],
        help="the whole shape of an input, such as --shape x=1,3,224,224",
    )
    parser.add_argument(
        "--grows",
        dest="growing",
        metavar="NAME=N",
        type=_room,
        action="append",
        default=[],
        help="the size of caches that grow from call to call, by its name in the model, and what they have room for; "
        "past=64:512 says which lengths have kernels of their own",
    )


def _add_input_options(parser: ArgumentParser) -> None:
    """Add the options that are about single inputs: their values, and which of them are states."""
    parser.add_argument(
        "--value",
        dest="values",
        metavar="INPUT=VALUE",
        type=_value,
        action="append",
        default=[],
        help="an input that decides shapes, settled now: numbers between commas, JSON, or a .npy file",
    )
    parser.add_argument(
        "--state",
        dest="states",
        metavar="INPUT=OUTPUT",
        type=_state,
        action="append",
        default=[],
        help="an input that the network holds between calls, and the output that it is next; may be repeated",
    )


def add_database(parser: ArgumentParser) -> None:
    add_db(parser, None, "run what was tuned there; without, schedules are guessed")


def add_inputs(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--input",
        dest="given",
        metavar="NAME=FILE.npy | FILE.npz",
        action="append",
        default=[],
        help="an array for an input, or a file of arrays by name; may be repeated; what is not given is random",
    )
    parser.add_argument(
        "--at",
        dest="called",
        metavar="NAME=N",
        type=_size_and_number,
        action="append",
        default=[],
        help="a size of the call where -D says a range (default: that of the arrays that are given, or the largest)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="of the random inputs (default: %(default)s)")


def network_of(args: Namespace, console: Console, db: DatabaseURLs | None = None) -> Network | NetworkOfSizes:
    """The network that the arguments describe, scheduled by what was tuned in a database if one is given.

    Raises NetworkError, RefusedModel, DatabaseError for a database that is not there, and UsageError for what clashes.
    """
    import metasched as ms

    sizes: dict[str, int | SizeRange | GrowingSize] = {
        name: said.as_size() for name, said in _as_mapping("-D", args.sizes).items()
    }
    rooms = _as_mapping("--grows", args.growing)
    grown = {name: ms.GrowingSize(numbers[-1], buckets=numbers[:-1]) for name, numbers in rooms.items()}
    twice = sorted(sizes.keys() & grown.keys())
    if twice:
        raise UsageError(f"the size `{twice[0]}` is given by -D, and by --grows")
    sizes |= grown
    network: Network | NetworkOfSizes = ms.load_onnx(
        args.model,
        values=_as_mapping("--value", args.values),
        shapes=_as_mapping("--shape", args.shapes),
        states=_as_mapping("--state", args.states),
        target=timed_target(args, console),
        precision=args.precision,
        db=db,
        sizes=sizes,
    )
    return network


def bound_again(args: Namespace) -> str:
    """The options of the command line that bind the model, to be given to another command."""
    parts = [f"-D {name}={said}" for name, said in args.sizes]
    parts += [f"--shape {name}={','.join(map(str, shape))}" for name, shape in args.shapes]
    parts += [f"--value {name}={json.dumps(np.asarray(value).tolist())}" for name, value in args.values]
    parts += [f"--state {name}={output}" for name, output in args.states]
    parts += [f"--grows {name}={':'.join(map(str, numbers))}" for name, numbers in args.growing]
    parts += [f"--precision {args.precision}"] if args.precision != ProductPrecision.F32.value else []
    parts += [f"--threads {args.threads}"] if args.threads else []
    return "".join(f" {shlex.quote(word)}" for part in parts for word in part.split(" ", 1))


def inputs_of(args: Namespace, network: Network | NetworkOfSizes) -> dict[str, Array]:
    """Arrays for all inputs: those of `--input`, and random ones. Raises UsageError for names that are no inputs."""
    given = dict(_arrays(args.given, network.inputs))
    for name in given:
        if name not in network.inputs:
            raise UsageError(
                f"--input: the network has no input `{name}`; it has {', '.join(network.inputs) or 'none'}"
            )
    return random_inputs(_types_at(network, given, _as_mapping("--at", args.called)), args.seed) | given


def _types_at(
    network: Network | NetworkOfSizes, given: Mapping[str, Array], called: Mapping[str, int]
) -> dict[str, ValueType]:
    """Types of the inputs of a call; sizes that are ranges are those of arrays that are given, else as `called`."""
    ranges: Mapping[str, SizeRange] = getattr(network, "ranges", {})
    wrong = [name for name in called if name not in ranges]
    if wrong:
        raise UsageError(f"--at: `{wrong[0]}` is no range; -D {wrong[0]}=LOW:HIGH makes it one")
    sizes = {name: range_.high for name, range_ in ranges.items()} | dict(called)
    for name, array in given.items():
        type_ = network.inputs[name]
        dims = () if isinstance(type_, ValueType) else type_.dims
        sizes |= {dim: n for dim, n in zip(dims, array.shape, strict=False) if isinstance(dim, str)}
    return {name: type_ if isinstance(type_, ValueType) else type_.at(sizes) for name, type_ in network.inputs.items()}


def load_arrays(file: str) -> dict[str, Array]:
    """The arrays of a .npz file. Raises UsageError for what is none."""
    try:
        with Path(file).open("rb") as opened:
            stored = np.load(opened, allow_pickle=False)
            if not isinstance(stored, np.ndarray):
                return {name: stored[name] for name in stored.files}
    except (ValueError, EOFError, BadZipFile) as error:
        raise UsageError(f"{file} is no .npz file of arrays: {error}") from error
    raise UsageError(
        f"{file} has one array, and arrays by name (.npz) are wanted: np.savez(FILE, NAME=array) writes them"
    )


def _arrays(given: Iterable[str], inputs: Mapping[str, Any]) -> Iterable[tuple[str, Array]]:
    for text in given:
        name, separator, file = text.rpartition("=")
        if not separator and text.endswith(".npz"):
            yield from load_arrays(text).items()
        elif not separator and len(inputs) == 1:
            yield next(iter(inputs)), _load_array(text)
        elif not separator:
            raise UsageError(f"--input {text}: say for which input, NAME={text}; there are {', '.join(inputs)}")
        else:
            yield name, _load_array(file)


def _load_array(file: str) -> Array:
    try:
        with Path(file).open("rb") as opened:
            array = np.load(opened, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:
        raise UsageError(f"{file} is no .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{file} has several arrays", hint=f"give it without a name: --input {file}")
    return array


# --- options of the form NAME=...


@dataclass(frozen=True)
class _SaidSize:
    """A size as it is given: a number, or a range by its lowest one, the largest of each bucket, and its step."""

    numbers: tuple[int, ...]
    step: int | None

    def as_size(self) -> int | SizeRange:
        """Raises NetworkError for what is no range."""
        if len(self.numbers) == 1:
            return self.numbers[0]
        return SizeRange(self.numbers[0], self.numbers[-1], self.numbers[1:-1], step=self.step or 1)

    def __str__(self) -> str:
        return ":".join(map(str, self.numbers)) + (f"/{self.step}" if self.step else "")


def _size(text: str) -> tuple[str, _SaidSize]:
    before, slash, step = text.rpartition("/")
    if not slash or "=" in step:  # names may have slashes
        before, slash = text, ""
    name, numbers = _numbers(before, "a number, such as {name}=1, or a range, {name}=1:512")
    if slash and (len(numbers) == 1 or not step.strip().isdecimal() or not int(step)):
        raise ArgumentTypeError(
            f"a step is a number from 1 at the end of a range of `{name}`, {name}=32:512/32, not `{text}`"
        )
    return name, _SaidSize(numbers, int(step) if slash else None)


def _room(text: str) -> tuple[str, tuple[int, ...]]:
    return _numbers(text, "a number, such as {name}=512, or lengths with kernels of their own, {name}=64:512")


def _size_and_number(text: str) -> tuple[str, int]:
    name, numbers = _numbers(text, "a number, such as {name}=1")
    if len(numbers) > 1:
        raise ArgumentTypeError(f"the size `{name}` is one number, such as {name}={numbers[0]}")
    return name, numbers[0]


def _numbers(text: str, form: str) -> tuple[str, tuple[int, ...]]:
    name, value = _pair(text, "NAME=N, such as batch=1")
    parts = [part.strip() for part in value.split(":")]
    if not all(part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"the size `{name}` is {form.format(name=name)}, not `{value}`")
    return name, tuple(map(int, parts))


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, value = _pair(text, "INPUT=N,N,..., such as x=1,3,224,224")
    parts = [part.strip() for part in value.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise ArgumentTypeError(f"the shape of `{name}` is numbers between commas, not `{value}`")
    return name, tuple(map(int, parts))


def _value(text: str) -> tuple[str, Any]:
    name, value = _pair(text, "INPUT=VALUE, such as shape=2,-1 or k=3")
    if value.endswith(".npy"):
        try:
            return name, np.load(Path(value), allow_pickle=False)
        except (OSError, ValueError) as error:
            raise ArgumentTypeError(f"{value} cannot be read: {error}") from None
    for candidate in (value, f"[{value}]"):
        try:
            return name, json.loads(candidate)
        except ValueError:
            continue
    raise ArgumentTypeError(f"the value of `{name}` is numbers, such as {name}=2,-1 or {name}=[[1,2]], not `{value}`")


def _state(text: str) -> tuple[str, str]:
    return _pair(text, "INPUT=OUTPUT, such as k0=k0_next")


def _pair(text: str, form: str) -> tuple[str, str]:
    name, separator, value = text.rpartition("=")
    if not separator or not name.strip():
        raise ArgumentTypeError(f"`{text}` is not of the form {form}")
    return name.strip(), value


def _as_mapping(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Pairs as a mapping; a name given twice is a mistake, not a choice."""
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise UsageError(f"{option} {name} is given twice")
        out[name] = value
    return out
