"""Products and pools that are more than a node. Skipped without PyTorch."""

from __future__ import annotations

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
F = torch.nn.functional


def test_bilinear_layers() -> None:
    run_whole(torch.nn.Bilinear(3, 4, 5), torch.randn(2, 3), torch.randn(2, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_products_that_are_scaled_and_added(dtype: torch.dtype) -> None:
    x, y, c = (torch.randint(-9, 9, shape).to(dtype) for shape in ((2, 3, 4), (2, 4, 5), (3, 5)))
    run_whole(
        lambda x, y, c: (
            torch.addmm(c, x[0], y[0], beta=3, alpha=2),
            torch.baddbmm(c, x, y, beta=0, alpha=-2),
            torch.addbmm(c, x, y),
            torch.addbmm(c[:, :1], x, y, beta=2, alpha=3),
        ),
        x, y, c,
    )  # fmt: skip


def test_places_of_the_largest() -> None:
    x = torch.randn(2, 3, 4, 6)
    run_whole(lambda x: F.max_pool2d(x, 2, return_indices=True), x)
    run_whole(lambda x: F.max_pool2d(x[0], 3, 2, 1, return_indices=True), x)
    run_whole(lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), x)
    run_whole(lambda x: F.adaptive_max_pool2d(x, (2, 3), return_indices=True), x)


def test_windows_of_several_sizes() -> None:
    x = torch.randn(1, 2, 7, 5)
    run_whole(lambda x: (F.adaptive_max_pool2d(x, (3, 4)), F.adaptive_avg_pool2d(x, (3, 4))), x)
    (refused,) = run(lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), x).reports[0].refused
    assert "outputs [1] are used" in refused.reason


def test_windows_of_several_sizes_have_infinities_of_their_own() -> None:
    x = torch.zeros(1, 1, 4, 5)
    x[..., 0, 0], x[..., 3, 4] = float("inf"), float("nan")
    for dtype in (torch.float32, torch.bfloat16):
        run_whole(lambda x: F.adaptive_avg_pool2d(x, (3, 2)), x.to(dtype))


def test_a_divisor_of_means() -> None:
    run_whole(lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=3), torch.randn(1, 2, 4, 6))
