"""Elements sampled between those of a grid, and distances. Skipped without PyTorch."""

from __future__ import annotations

import pytest

from tests.support.torch_models import run, run_whole

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]  # the warnings are PyTorch's own
F = torch.nn.functional


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grids(mode: str, padding: str) -> None:
    x, grid = torch.randn(1, 2, 4, 5), torch.randn(1, 3, 3, 2)
    for corners in (False, True):
        run_whole(lambda x, g, c=corners: F.grid_sample(x, g, mode, padding, align_corners=c), x, grid)


def test_grids_of_volumes() -> None:
    run_whole(
        lambda x, g: F.grid_sample(x, g, align_corners=False), torch.randn(1, 2, 3, 3, 3), torch.rand(1, 2, 2, 2, 3)
    )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_sizes_that_become_smaller(mode: str) -> None:
    run_whole(lambda x: F.interpolate(x, size=(5, 3), mode=mode, antialias=True), torch.randn(1, 2, 9, 8))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [0.4, (0.4, 0.7), (1.0, 0.3)])
def test_factors_that_give_no_whole_sizes(mode: str, factor: float | tuple[float, float]) -> None:
    run_whole(
        lambda x: F.interpolate(x, scale_factor=factor, mode=mode, antialias=True) * 2,
        torch.randn(1, 2, 9, 8),
    )


def test_aligned_corners_without_aliases_are_pytorchs() -> None:
    made = run(
        lambda x: F.interpolate(x, size=(5, 3), mode="bilinear", antialias=True, align_corners=True) * 2,
        torch.randn(1, 2, 9, 8),
    )
    assert [operator.name for operator in made.reports[0].refused] == ["aten._upsample_bilinear2d_aa"]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 2.5, torch.inf])
def test_distances(p: float) -> None:
    run_whole(lambda x, y: (torch.cdist(x, y, p), torch.pdist(x[0], p)), torch.randn(2, 3, 4), torch.randn(5, 4))
