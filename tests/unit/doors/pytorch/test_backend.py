"""`torch.compile(model, backend=...)`: operators, weights, fallbacks. Skipped without PyTorch."""

from __future__ import annotations

import copy
import logging
import math
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import metasched as ms
from metasched.doors.pytorch import backend as backend_module
from metasched.doors.pytorch import lowering
from metasched.doors.pytorch.backend import TorchBackend, explain_torch
from metasched.doors.pytorch.registry import known_operators
from metasched.graph.tuning import settling
from tests.support.fake_runner import AllFaster, FakeRunner
from tests.support.pages import PAGES, fenced, title
from tests.support.pages import run as run_code
from tests.support.torch_models import ReferenceNetwork, run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
F = torch.nn.functional


@pytest.fixture
def by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend_module, "Network", ReferenceNetwork)


@pytest.fixture(autouse=True)
def forgotten() -> Any:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


OPERATORS: dict[str, Any] = {
    "arithmetic": lambda x: (x + 1, 2 - x, x * x, x / 3, torch.add(x, x, alpha=2), x**2, x.abs() ** 0.5, -x),
    "rounded": lambda x: (torch.floor(x), x // 0.5, x.remainder(0.7), torch.fmod(x, 0.7), torch.round(x), x.trunc()),
    "functions": lambda x: (
        x.exp(),
        x.tanh(),
        x.sigmoid(),
        torch.erf(x),
        x.erfc(),
        x.cos(),
        F.softplus(x),
        torch.expm1(x),
    ),
    "activations": lambda x: (F.gelu(x), F.silu(x), F.relu6(x), F.leaky_relu(x), F.elu(x), F.hardswish(x), F.mish(x)),
    "comparisons": lambda x: (x > 0, x == x, (x > 0) & (x < 1), torch.where(x > 0, x, 0.5), x.clamp(-1, 1), x.isnan()),
    "integers": lambda x: ((x * 9).int() // 2, (x * 9).long() % 4, (x > 0).sum(), (x * 9).int() & 3, (x > 0).float()),
    "reductions": lambda x: (x.sum(), x.mean(1), x.amax((0, 2)), x.var(1), x.std(), x.argmax(1), x.max(2), x.cumsum(1)),
    "movement": lambda x: (
        x.permute(2, 0, 1),
        x.reshape(4, -1),
        x[:, None],
        x[..., 1],
        x[:, 1:3],
        x.flip(1),
        x.roll(1, 2),
    ),
    "joined": lambda x: (
        torch.cat([x, x * 2], 1),
        torch.stack([x, x]),
        *x.split(2, 1),
        *x.chunk(2, 2),
        x.repeat(1, 2, 1),
    ),
    "padded": lambda x: (
        F.pad(x, (1, 2)),
        F.pad(x, (1, 1), mode="reflect"),
        F.pad(x, (2, 1), mode="replicate"),
        x.tril(),
    ),
    "products": lambda x: (x @ x.transpose(1, 2), torch.einsum("bij,bkj->bik", x, x), F.linear(x, x[0])),
    "softmax": lambda x: (
        x.softmax(-1),
        F.log_softmax(x, 1),
        torch.ops.aten._safe_softmax(torch.where(x[..., :1] > 0, x, -torch.inf), -1),
        F.layer_norm(x, (4,)),
        F.group_norm(x, 1),
        x.logsumexp(1),
    ),
    "picked": lambda x: (
        x[:, [0, 2]],
        x[[0, 1], [1, 2]],
        x.gather(1, (x > 0).long()),
        x.index_select(1, torch.tensor([1, 0])),
    ),
    "shifted": lambda x: ((x * 9).int() << 2, (x * 90).int() >> 1, torch.bitwise_right_shift((x * 9).long(), 1)),
    "decimals": lambda x: (x.round(decimals=1), (x * 99).round(decimals=-1)),
    "angles": lambda x: (x.atan(), (x / 9).asin(), (x / 9).acos(), torch.atan2(x, x.flip(1))),
    "signs": lambda x: (torch.copysign(x, -x), x.signbit(), torch.heaviside(x, x), torch.logaddexp2(x, x * 2)),
    "rounded to bytes": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -10, 10),
    "rounded to bytes of channels": lambda x: torch.fake_quantize_per_channel_affine(
        x * 3, torch.tensor([0.1, 0.3, 0.7]), torch.tensor([3, 0, -2], dtype=torch.int32), 1, -10, 10
    ),
    "rounded to bytes by tensors": lambda x: tuple(
        torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            x, torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32), torch.tensor([on]), -10, 10
        )[0]
        for on in (0, 1)
    ),
    "lengths": lambda x: tuple(torch.linalg.vector_norm(x, n, 1) for n in (0, 1, 2, 3, torch.inf, -torch.inf)),
    "windows": lambda x: (
        x.unfold(1, 2, 1),
        x.unfold(-1, 3, 1),
        x.diagonal(1, 1, 2),
        x[0].diagonal(-1),
        x.as_strided((2, 3), (3, 2), 1),
        (x[0] + 1).t().as_strided((3, 2), (1, 4), 2) * 2,
    ),
    "copies": lambda x: (
        torch.view_copy(x, (4, 6)) + 1,
        torch.permute_copy(x, (2, 0, 1)) + 1,
        *torch.unbind_copy(x + 1),
        torch.narrow_copy(x, 1, -2, 1) + 1,
        torch.as_strided_copy(x, (2, 3), (3, 2), 1) + 1,
    ),
    "diagonals": lambda x: tuple(
        torch.diagonal_scatter(x, x.diagonal(n, *dims) * 2, n, *dims) for n in (-1, 0, 2) for dims in ((1, 2), (2, 0))
    ),
    "written in strides": lambda x: tuple(
        torch.as_strided_scatter(x, x[0, :2, :2] * 2, (2, 2), strides, first)
        for strides, first in (((2, 1), 0), ((4, 1), 5), ((1, 9), 3), ((9, 2), 12))
    ),
    "scaled": lambda x: (torch.ldexp(x, (x * 3).int()), torch.ldexp((x * 9).int(), (x * 3).int())),
    "directions": lambda x: (x.angle(), (x * 9).int().angle(), torch.tensor([torch.nan, -0.0]).mul(x[0, 0, 0]).angle()),
    "nothing joined": lambda x: torch.cat([x[:0, 0, 0], x[:0, 1, 0]]),
    "largest": lambda x: (*x.topk(2), *x.topk(2, 1, largest=False)),
}


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_compute_what_pytorch_does(name: str) -> None:
    run_whole(OPERATORS[name], torch.randn(2, 3, 4))


def test_memory_that_is_written_twice_is_written_by_pytorch() -> None:
    made = run(lambda x: torch.as_strided_scatter(x, x[:, :2, 0] * 0, (2, 2), (1, 1)) + 1, torch.randn(2, 3, 4))
    assert [operator.name for operator in made.reports[0].refused] == ["aten.as_strided_scatter"]


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.uint8, torch.bool])
def test_signs_of_numbers_and_of_what_is_none(dtype: Any) -> None:
    values = [-2.5, -0.0, 0.0, 3.0, torch.inf, torch.nan] if dtype.is_floating_point else [-3, 0, 2]
    run_whole(torch.sign, torch.tensor(values, dtype=torch.float64).to(dtype))


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_as_integers_wrap(kind: Any) -> None:
    signed = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
    unsigned = [torch.uint16, torch.uint32, torch.uint64]
    x = torch.tensor([-1.5, -9.0, 300.0, 7.0, -200.0, 40000.0, -40000.0, 60000.0], dtype=kind)
    run_whole(lambda x: tuple(x.to(wanted) for wanted in signed), x)
    run_whole(lambda x: tuple(x.to(wanted) for wanted in unsigned), x)
    run_whole(lambda x: (x.sum(0, dtype=torch.uint8), x.cumsum(0, dtype=torch.int8)), x)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    "kind", ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"]
)
def test_floats_of_bytes_end_where_those_of_pytorch_do(kind: str) -> None:
    values = [0.0, -0.0, 1.5, -3.0, 1e-9, 448.0, 464.0, 465.0, -500.0, 6e4, 7e4, torch.inf, -torch.inf, torch.nan]
    for given in (torch.float32, torch.float64, torch.bfloat16):
        x = torch.tensor(values, dtype=given)
        run_whole(lambda x: x.to(getattr(torch, kind)).float(), x)
    run_whole(lambda x: x.to(getattr(torch, kind)).float(), torch.tensor([0, 7, -600, 2**40]))


class Net(torch.nn.Module):
    """Convolutions, norms, pools, and a part that is joined."""

    def __init__(self) -> None:
        super().__init__()
        n = torch.nn
        self.first = n.Sequential(n.Conv2d(3, 4, 3, 2, 1, bias=False), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(3, 1, 1))
        self.deep = n.Conv2d(4, 4, 3, padding="same", groups=4)
        self.up = n.ConvTranspose2d(4, 2, 2, 2)
        self.last = n.Linear(6, 5)

    def forward(self, x: Any) -> Any:
        a = self.first(x)
        b = torch.cat([self.deep(a), self.up(F.avg_pool2d(a, 2))], 1)
        return a, self.last(F.adaptive_avg_pool2d(b, 1).flatten(1))


@pytest.mark.usefixtures("by_reference")
def test_a_convolutional_network_in_both_layouts() -> None:
    net, x = Net().eval(), torch.randn(2, 3, 8, 8)
    for memory_format in (torch.contiguous_format, torch.channels_last):
        backend = run(net.to(memory_format=memory_format), x.to(memory_format=memory_format))
        assert len(backend.networks) == 1
        assert not backend.reports[0].refused
        torch._dynamo.reset()


@pytest.mark.usefixtures("by_reference")
def test_what_is_refused_runs_in_pytorch_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "metasched.torch"):
        backend = run(lambda x: torch.i0(x * 2 + 1)[:, 0] @ (x + 3), torch.randn(3, 4))
    assert len(backend.networks) == 2
    assert "PyTorch runs 1" in str(backend)
    assert repr(backend) == "<TorchBackend, 1 graph, 2 networks, 7 operators in these, 1 in PyTorch>"
    assert repr(TorchBackend()) == "<TorchBackend, no graph yet>"
    assert "aten.i0: no program is known for this operator" in caplog.text


@pytest.mark.usefixtures("by_reference")
def test_what_reads_a_result_that_no_network_can_take_says_which() -> None:
    def model(x: Any) -> Any:
        return torch.unique(x).sum() + 1

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        refused = run(model, torch.tensor([1.0, 2.0, 1.0])).reports[0].refused
    assert "aten.sum.dim_IntList: it reads what aten._unique2 gives: its shape (u0,) is not known" in [
        str(r) for r in refused
    ]


@pytest.mark.parametrize("given", [{"mode": "max-autotune"}, {"options": {"a": 1}}])
@pytest.mark.parametrize("backend", ["metasched", TorchBackend()])
def test_modes_and_options_are_refused(backend: Any, given: dict[str, Any]) -> None:
    (name,) = given
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=f"was given {name}=.*no modes") as failed:
        torch.compile(torch.relu, backend=backend, **given)(torch.randn(3))
    assert str(failed.value).startswith("backend='metasched' raised:\nNetworkError")


@pytest.mark.usefixtures("by_reference")
def test_errors_of_operators_are_logged_for_who_looks_for_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(site: Any, x: Any) -> Any:
        return x.shape[7]

    monkeypatch.setattr(lowering, "known_operators", lambda: {**known_operators(), "aten.relu": broken})
    with caplog.at_level(logging.DEBUG, "metasched.torch"):
        backend = run(torch.relu, torch.randn(3))
    assert "aten.relu: its arguments do not go together: tuple index" in str(backend)
    assert "aten.relu is refused" in caplog.text
    assert "in broken" in caplog.text


@pytest.mark.usefixtures("by_reference")
def test_weights_are_constants_until_they_are_written() -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    backend = TorchBackend()
    fast = torch.compile(layer, backend=backend, dynamic=False)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(fast(x), layer(x))
            layer.weight.add_(1)
            torch.testing.assert_close(fast(x), layer(x))
    counts = [len(network.graph.inputs) for network in backend.networks]
    assert (counts[0], counts[-1]) == (1, 2)


class Counts(torch.nn.Module):
    """A buffer that each call writes, and a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: Any) -> Any:
        self.total.add_(x)
        return self.total * self.weight


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("dynamic", [False, True])
def test_buffers_that_a_graph_writes_are_inputs_of_one_network(mode: Any, dynamic: bool) -> None:
    backend, x = TorchBackend(), torch.ones(3)
    with mode():
        counts = Counts()
        fast = torch.compile(counts, backend=backend, dynamic=dynamic)
        assert [fast(x).tolist() for _ in range(3)] == [[n] * 3 for n in (1, 2, 3)]
    assert counts.total.tolist() == [3, 3, 3]
    weights = 1 if mode is torch.inference_mode else 0
    assert [len(network.graph.inputs) for network in backend.networks] == [2 + weights]


@pytest.mark.usefixtures("by_reference")
def test_weights_made_in_inference_mode_are_inputs() -> None:
    backend, x = TorchBackend(), torch.randn(4, 3)
    with torch.inference_mode():
        layer = torch.nn.Linear(3, 2)
        fast = torch.compile(layer, backend=backend, dynamic=False)
        for _ in range(2):
            torch.testing.assert_close(fast(x), layer(x))
            layer.weight.mul_(3)
        torch.testing.assert_close(fast(x), layer(x))
        layer.load_state_dict(torch.nn.Linear(3, 2).state_dict())
        torch.testing.assert_close(fast(x), layer(x))
    assert [len(network.graph.inputs) for network in backend.networks] == [3]


@pytest.mark.usefixtures("by_reference")
def test_other_shapes_are_graphs_of_their_own() -> None:
    layer = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    backend = TorchBackend()
    fast = torch.compile(layer, backend=backend)
    with torch.no_grad():
        for rows in (4, 5, 6, 5):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(fast(x), layer(x))
    assert [network.graph.types[network.graph.inputs[0]].shape for network in backend.networks] == [
        (4, 3),
        (5, 3),
        (6, 3),
    ]


def test_training_is_not_warned_of() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*AOTAutograd.*")
        torch.compile(model, backend="metasched")(torch.ones(2, 4)).sum().backward()
    assert model[0].weight.grad is not None


def test_gradients_are_pytorchs(caplog: pytest.LogCaptureFixture) -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    backend = TorchBackend()
    with caplog.at_level(logging.WARNING, "metasched.torch"):
        torch.compile(layer, backend=backend)(x).sum().backward()
    assert layer.weight.grad is not None
    assert not backend.networks
    assert "torch.no_grad()" in caplog.text


@pytest.mark.usefixtures("by_reference")
def test_a_model_is_explained() -> None:
    assert "operators run in 1 network" in str(explain_torch(torch.nn.Linear(3, 2), torch.randn(1, 3)))


def test_the_backend_is_found_by_name_and_its_kernels_run() -> None:
    layer, x = torch.nn.Linear(3, 2), torch.randn(4, 3)
    assert "metasched" in torch._dynamo.list_backends(exclude_tags=())
    with torch.inference_mode():
        torch.testing.assert_close(torch.compile(layer, backend="metasched")(x), layer(x))
        bf16 = layer.to(torch.bfloat16)
        have = torch.compile(bf16, backend="metasched")(x.bfloat16())
        torch.testing.assert_close(have, bf16(x.bfloat16()), rtol=2e-2, atol=2e-2)
    assert isinstance(ms.TorchBackend(), TorchBackend)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
@pytest.mark.usefixtures("by_reference")
def test_a_copy_of_a_compiled_module_makes_networks_of_its_own(copied: Any) -> None:
    layer, x, backend = torch.nn.Linear(3, 2), torch.randn(4, 3), TorchBackend()
    fast = torch.compile(layer, backend=backend)
    with torch.inference_mode():
        fast(x)
        again = copied(fast)
        torch.testing.assert_close(again(x), layer(x))
    assert len(backend.networks) == 1
    assert copy.copy(backend).networks == []


def test_networks_are_tuned_and_later_compilations_run_what_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "_time_in_turns", lambda *_: AllFaster())
    layer, x, url = torch.nn.Linear(64, 48), torch.randn(32, 64), f"sqlite:///{tmp_path}/t.db"
    expected = layer(x).detach()

    def networks() -> tuple[Any, list[ms.Network]]:
        torch._dynamo.reset()
        backend = TorchBackend()
        fast = torch.compile(layer, backend=backend)
        fast(x)
        return fast, backend.networks

    with torch.inference_mode():
        fast, (net,) = networks()
        net.tune(4, url, runner=FakeRunner(), progress=False)
        torch.testing.assert_close(fast(x), expected)
        assert net.choices
        fast, (again,) = networks()
        assert not again.choices
        again.use(url)
        torch.testing.assert_close(fast(x), expected)
        assert {key: one.trace for key, one in again.choices.items()} == {
            key: one.trace for key, one in net.choices.items()
        }


# Examples that are marked `py`, since most tests do without PyTorch, and what they have before them.
EXAMPLES = {title(page): examples for page in PAGES if "torch.compile(" in (examples := "\n".join(fenced(page, "py")))}
BEFORE = """
import torch
import metasched as ms

model, x = torch.nn.Sequential(torch.nn.Linear(64, 48), torch.nn.ReLU()), torch.randn(32, 64)
"""


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_of_the_documentation_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metasched.measure.executors.local.LocalRunner", lambda _: FakeRunner())
    examples = re.sub(r"budget=\d+", "trials=4", EXAMPLES[page])
    said = run_code(f"{BEFORE}{examples}\ntorch.testing.assert_close(y, model(x), check_stride=False)\n", tmp_path)
    assert "operators run in 1 network" in said


@pytest.mark.usefixtures("by_reference")
def test_sizes_that_vary_have_a_network_each_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend_module, "_MOST_SIZES", 10)
    backend = TorchBackend()
    fast = torch.compile(lambda x: x * 2 + 1, backend=backend, dynamic=True)
    with torch.no_grad(), caplog.at_level(logging.WARNING, logger="metasched.torch"):
        for n in range(2, 14):
            torch.testing.assert_close(fast(torch.full((n, 3), 0.5)), torch.full((n, 3), 2.0))
    assert len(backend.networks) == 10
    assert caplog.text.count("networks for 10 combinations of sizes") == 1


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize("mark", ["mark_dynamic", "maybe_mark_dynamic", "mark_unbacked"])
def test_sizes_that_are_marked_as_open_have_a_network_each(mark: str) -> None:
    def model(x: Any) -> Any:
        x.add_(1)
        return x * 2

    mark_open, backend = getattr(torch._dynamo.decorators, mark), TorchBackend()
    fast = torch.compile(model, backend=backend)
    with torch.no_grad():
        for rows in (4, 5, 4):
            x = torch.randn(rows, 3)
            own = x.clone()
            mark_open(x, 0)
            torch.testing.assert_close(fast(x), model(own))
            torch.testing.assert_close(x, own)
    assert len(backend.networks) == 2


@pytest.mark.usefixtures("by_reference")
def test_tensors_with_marks_have_gradients() -> None:
    x = torch.randn(4, 3, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    torch.compile(lambda x: x * 2, backend="metasched")(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4, 3), 2.0))


@pytest.mark.usefixtures("by_reference")
def test_numbers_of_a_model_whose_sizes_vary_are_no_reason_to_take_it_apart() -> None:
    n = torch.nn
    net = n.Sequential(n.Linear(4, 4), n.LayerNorm(4), n.GELU(), n.LayerNorm(4, eps=0.1), n.Linear(4, 2)).eval()

    def model(x: Any) -> Any:
        y = torch.cat([net(x), torch.ones(x.shape[0], 1, 2)], 1)  # one row more: a sum of sizes
        return y.reshape(y.shape[0] * y.shape[1], 2)

    backend = TorchBackend()
    fast = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for rows in (3, 5):
            x = torch.randn(2, rows, 4)
            torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)
    assert [len(report.networks) for report in backend.reports] == [1, 1]
    assert not any(report.refused for report in backend.reports)


@pytest.mark.usefixtures("by_reference")
def test_zeros_of_both_signs_are_numbers_of_their_own_and_nan_is_one() -> None:
    def model(x: Any, by: float) -> Any:
        return x / by

    backend = TorchBackend()
    fast = torch.compile(model, backend=backend, dynamic=True)
    with torch.no_grad():
        for number in (2.5, 0.0, -0.0, math.nan, 0.0, float("nan"), -0.0):
            x = torch.ones(3)
            torch.testing.assert_close(fast(x, number), model(x, number), equal_nan=True)
    assert len(backend.networks) == 4
