"""Pictures of what the pipelines do: python examples/pipelines/pictures.py pipelines.png"""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from local_laplacian import local_laplacian
from numpy.typing import NDArray

import metasched as ms

Grey = NDArray[np.float32]
FOLDER = Path(__file__).parent
H, W = 144, 216


def scene() -> Grey:
    """A colour image f32[3, H, W] in (0, 1): discs and bars before a sky, in shadow on one side, with some noise."""
    i, j = np.indices((H, W))
    image = np.stack([0.25 + 0.3 * i / H, 0.35 + 0.3 * i / H, 0.75 - 0.2 * i / H])
    for row, column, radius, colour in (
        (50, 60, 32, (0.9, 0.4, 0.2)),
        (95, 120, 40, (0.3, 0.7, 0.3)),
        (60, 190, 28, (0.9, 0.85, 0.3)),
    ):
        inside = (i - row) ** 2 + (j - column) ** 2 < radius**2
        image = np.where(inside, np.reshape(colour, (3, 1, 1)) * (1 - 0.3 * ((i + j) // 6 % 2)), image)
    bars = (i > H - 30) & (j // 10 % 2 == 0)
    image = np.where(bars, 0.15, image) * np.where(j > W // 2, 0.45, 1.0)
    noise = np.random.default_rng(0).normal(0, 0.01, image.shape)
    return np.clip(image + noise, 0.02, 0.98).astype(np.float32)


def compiled(name: str) -> ms.Kernel:
    """A pipeline at the pictures' size, by the guess."""
    return ms.compile(ms.load_program(FOLDER / f"{name}.ms", H=H, W=W))


def pictures(image: Grey) -> list[Grey]:
    """Colour images f32[3, H, W]: the scene, and what each pipeline makes of it."""
    grey = np.tensordot(np.float32([0.299, 0.587, 0.114]), image, 1).astype(np.float32)
    weights = np.float32([0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03])
    sensor = np.where(np.indices((H, W)).sum(0) % 2 == 0, image[1], image[0])
    sensor = np.where((np.indices((H, W))[0] % 2 == 1) & (np.indices((H, W))[1] % 2 == 0), image[2], sensor)
    corners = np.pad(compiled("harris")(image), 2)
    marked = np.where(corners > 0.02 * corners.max(), np.float32([1, 0, 0]).reshape(3, 1, 1), image)
    colours = compiled("demosaic")((sensor * 65535).astype(np.uint16)) / np.float32(65535)
    equal = compiled("histogram")((grey * 255).astype(np.uint8)) / np.float32(255)
    laplacian = ms.compile(local_laplacian(H, W, depth=4, levels=8, alpha=1.5))(grey)
    planes = (compiled("bilateral_grid")(grey), laplacian, equal)
    return [image, compiled("unsharp")(image, weights), marked, colours, *(np.stack([plane] * 3) for plane in planes)]


def write_png(file: Path, image: Grey) -> None:
    """An image f32[3, height, width], of which five bits a colour are kept."""
    _, height, width = image.shape
    rows = np.moveaxis((np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8) & 0xF8, 0, -1).reshape(height, -1)
    # Each row as differences to the one above, which compress well.
    raw = np.concatenate([np.full((height, 1), 2, np.uint8), np.diff(rows, axis=0, prepend=np.uint8(0))], axis=1)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw.tobytes(), 9)) + chunk(b"IEND", b"")
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + body)


def main() -> None:
    found = pictures(scene())
    found.append(np.ones_like(found[0]))
    rows = [np.concatenate(found[n : n + 4], axis=2) for n in (0, 4)]
    write_png(Path(sys.argv[1]), np.concatenate(rows, axis=1).astype(np.float32))


if __name__ == "__main__":
    main()
