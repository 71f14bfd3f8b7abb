"""The twelve operators at shapes of layers of real networks, for which nobody wrote a trace.

Each has its source: the network, the layer, and the input that gives the shape. What the parameters mean is said in the
operator's file. Shapes are such that a call takes about 20 ms at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from metasched.ir.program import Program
from metasched.operators import TWELVE, load


@dataclass(frozen=True)
class LayerShape:
    """One of the twelve operators (`suite`) at the shape of a layer: which network's is said by `source`."""

    suite: str
    source: str
    params: Mapping[str, int]

    @property
    def operator(self) -> str:
        return TWELVE[self.suite].operator

    @property
    def case(self) -> str:
        numbers = " ".join(f"{name}={value}" for name, value in self.params.items())
        return f"{self.suite} {numbers}"

    def program(self) -> Program:
        return load(self.operator, **self.params)


_Shape = tuple[str, dict[str, int]]


def _line(length: int, ci: int, co: int, taps: int, s: int = 1, p: int = 0, d: int = 1) -> dict[str, int]:
    return {"L": length, "CI": ci, "CO": co, "R": taps, "S": s, "P": p, "D": d}


def _image(size: int, ci: int, co: int, taps: int, s: int = 1, p: int = 0, d: int = 1, g: int = 1) -> dict[str, int]:
    return {"H": size, "W": size, "CI": ci, "CO": co, "R": taps, "S": s, "P": p, "D": d, "G": g}


def _volume(z: int, size: int, ci: int, co: int, taps: int, s: int = 1, p: int = 0) -> dict[str, int]:
    return {"Z": z, "H": size, "W": size, "CI": ci, "CO": co, "R": taps, "S": s, "P": p}


def _channels(size: int, c: int, taps: int, s: int, p: int) -> dict[str, int]:
    return {"H": size, "W": size, "C": c, "R": taps, "S": s, "P": p}


def _up(h: int, w: int, ci: int, co: int, taps: int, s: int, p: int, opad: int = 0) -> dict[str, int]:
    return {"H": h, "W": w, "CI": ci, "CO": co, "R": taps, "S": s, "P": p, "OPAD": opad}


def _product(batch: int, m: int, n: int, k: int) -> dict[str, int]:
    return {"BATCH": batch, "M": m, "N": n, "K": k}


def _heads(length: int, heads: int, d: int, batch: int = 1) -> dict[str, int]:
    return {"BATCH": batch, "L": length, "HEADS": heads, "D": d}


def _matrix(m: int, n: int, batch: int = 1) -> dict[str, int]:
    return {"BATCH": batch, "M": m, "N": n}


def _rows(m: int, n: int) -> dict[str, int]:
    return {"M": m, "N": n}


_SHAPES: Mapping[str, tuple[_Shape, ...]] = {
    "C1D": (
        ("wav2vec 2.0, feature encoder's layer 2, 1 s of 16 kHz", _line(3199, 512, 512, 3, s=2)),
        ("wav2vec 2.0, feature encoder's layer 6, 1 s of 16 kHz", _line(199, 512, 512, 2, s=2)),
        ("wav2vec 2.0, feature encoder's layer 1, 1 s of 16 kHz", _line(16000, 1, 512, 10, s=5)),
        ("Whisper tiny, first convolution, 30 s", _line(3000, 80, 384, 3, p=1)),
        ("Whisper tiny, second convolution, 30 s", _line(3000, 384, 384, 3, s=2, p=1)),
        ("WaveNet, dilated gate of 32 residual channels, 0.25 s of 16 kHz", _line(4000, 32, 64, 2, d=64)),
        ("TCN on Penn Treebank words, level 3, 80 steps", _line(80, 600, 600, 3, p=8, d=4)),
        ("Jasper, first convolution, 10 s of 64 features", _line(1000, 64, 256, 11, s=2, p=5)),
        ("M5, first convolution of raw audio, 8 kHz", _line(8000, 1, 128, 80, s=4)),
        ("Tacotron 2, postnet, 256 frames", _line(256, 512, 512, 5, p=2)),
        ("HiFi-GAN V1, residual block of 64 channels, 32 frames", _line(4096, 64, 64, 11, p=25, d=5)),
        ("Conv-TasNet, pointwise in a block, 3200 frames", _line(3200, 128, 512, 1)),
    ),
    "C2D": (
        ("ResNet-50, conv2 3x3", _image(56, 64, 64, 3, p=1)),
        ("ResNet-50, conv4 3x3 down", _image(28, 256, 256, 3, s=2, p=1)),
        ("ResNet-50, conv4 1x1 out", _image(14, 256, 1024, 1)),
        ("ResNet-50, conv5 1x1 in", _image(7, 2048, 512, 1)),
        ("ResNet-50, conv3 shortcut", _image(56, 256, 512, 1, s=2)),
        ("VGG-16, conv1_1", _image(224, 3, 64, 3, p=1)),
        ("VGG-16, conv5_1", _image(14, 512, 512, 3, p=1)),
        ("Inception-v3, first convolution", _image(299, 3, 32, 3, s=2)),
        ("Inception-v3, 3x3 of Mixed_5b", _image(35, 64, 96, 3, p=1)),
        ("MobileNet-v2, expansion at 14x14", _image(14, 64, 384, 1)),
        ("EfficientNet-B0, head", _image(7, 320, 1280, 1)),
        ("YOLOv3, Darknet-53's 3x3 at 52x52", _image(52, 128, 256, 3, p=1)),
    ),
    "C3D": (
        ("C3D, conv1a, 16 frames", _volume(16, 112, 3, 64, 3, p=1)),
        ("I3D, Mixed_4b 3x3x3 of 96, 16 frames", _volume(4, 14, 96, 208, 3, p=1)),
        ("I3D, Mixed_5b 3x3x3 of 160, 16 frames", _volume(2, 7, 160, 320, 3, p=1)),
        ("C3D, conv5a, 16 frames", _volume(2, 7, 512, 512, 3, p=1)),
        ("I3D, Mixed_3b 3x3x3 of 96, 16 frames", _volume(8, 28, 96, 128, 3, p=1)),
        ("I3D, Mixed_4f 3x3x3 of 160, 16 frames", _volume(4, 14, 160, 320, 3, p=1)),
        ("I3D, Mixed_3b 1x1x1, 16 frames", _volume(8, 28, 192, 64, 1)),
        ("R3D-18, layer 2 down, 16 frames", _volume(16, 56, 64, 128, 3, s=2, p=1)),
        ("R3D-18, layer 3, 16 frames", _volume(4, 14, 256, 256, 3, p=1)),
        ("3D U-Net, second convolution, 32^3", _volume(32, 32, 32, 64, 3, p=1)),
        ("V-Net, down convolution 2x2x2, 32^3", _volume(32, 32, 32, 64, 2, s=2)),
        ("VoxNet, first convolution, 32^3", _volume(32, 32, 1, 32, 5, s=2)),
    ),
    "DEP": (
        ("MobileNet-v2, block 2 down", _channels(112, 96, 3, 2, 1)),
        ("MobileNet-v2, block 3", _channels(56, 144, 3, 1, 1)),
        ("MobileNet-v2, blocks of 14x14", _channels(14, 576, 3, 1, 1)),
        ("MobileNet-v2, blocks of 7x7", _channels(7, 960, 3, 1, 1)),
        ("MobileNet-v1, first down", _channels(112, 64, 3, 2, 1)),
        ("EfficientNet-B0, 5x5 down to 28x28", _channels(56, 144, 5, 2, 2)),
        ("EfficientNet-B0, 5x5 at 28x28", _channels(28, 240, 5, 1, 2)),
        ("EfficientNet-B0, 5x5 down to 7x7", _channels(14, 672, 5, 2, 2)),
        ("EfficientNet-B0, 5x5 at 7x7", _channels(7, 1152, 5, 1, 2)),
        ("ConvNeXt-T, 7x7 at 56x56", _channels(56, 96, 7, 1, 3)),
        ("ConvNeXt-T, 7x7 at 14x14", _channels(14, 384, 7, 1, 3)),
        ("MnasNet-A1, 5x5 at 28x28", _channels(28, 120, 5, 1, 2)),
    ),
    "DIL": (
        ("DeepLabv3 on MobileNet-v2, ASPP of rate 6, 513x513", _image(33, 320, 256, 3, p=6, d=6)),
        ("DeepLabv3 on MobileNet-v2, ASPP of rate 12, 513x513", _image(33, 320, 256, 3, p=12, d=12)),
        ("DeepLabv3 on MobileNet-v2, ASPP of rate 18, 513x513", _image(33, 320, 256, 3, p=18, d=18)),
        ("DeepLabv3 on ResNet-50, conv5, 257x257", _image(17, 512, 512, 3, p=2, d=2)),
        ("DRN-A-50, layer 3, 224x224", _image(28, 256, 256, 3, p=2, d=2)),
        ("DRN-A-50, layer 4, 224x224", _image(28, 512, 512, 3, p=4, d=4)),
        ("Multi-scale context module, basic, rate 2", _image(64, 21, 21, 3, p=2, d=2)),
        ("Multi-scale context module, basic, rate 8", _image(64, 21, 21, 3, p=8, d=8)),
        ("ENet, dilated bottleneck of rate 4, 512x512", _image(64, 32, 32, 3, p=4, d=4)),
        ("CSRNet, back end 256 to 128, 224x224", _image(28, 256, 128, 3, p=2, d=2)),
        ("CSRNet, back end 128 to 64, 224x224", _image(28, 128, 64, 3, p=2, d=2)),
        ("RFB-Net, block of rate 5, 300x300", _image(38, 128, 128, 3, p=5, d=5)),
    ),
    "GMM": (
        ("BERT-base, probabilities by values, 128 tokens", _product(12, 128, 64, 128)),
        ("BERT-large, scores, 384 tokens", _product(16, 384, 384, 64)),
        ("GPT-2, scores, 1024 tokens", _product(12, 1024, 1024, 64)),
        ("GPT-2, probabilities by values, 1024 tokens", _product(12, 1024, 64, 1024)),
        ("ViT-B/16, scores, 197 tokens", _product(12, 197, 197, 64)),
        ("ViT-B/16, probabilities by values, 197 tokens", _product(12, 197, 64, 197)),
        ("Swin-T, scores of 64 windows of 3 heads", _product(192, 49, 49, 32)),
        ("T5-small, probabilities by values, a token of 512", _product(8, 1, 64, 512)),
        ("LLaMA-7B, scores, 128 tokens", _product(32, 128, 128, 128)),
        ("CapsNet, votes of 1152 capsules", _product(1152, 1, 160, 8)),
        ("Switch Transformer base, 8 experts' first layers, 64 tokens each", _product(8, 64, 3072, 768)),
        ("DETR, cross-attention's scores, 100 queries of 950", _product(8, 100, 950, 32)),
    ),
    "GRP": (
        ("ResNeXt-50 32x4d, conv2", _image(56, 128, 128, 3, p=1, g=32)),
        ("ResNeXt-50 32x4d, conv3", _image(28, 256, 256, 3, p=1, g=32)),
        ("ResNeXt-50 32x4d, conv4", _image(14, 512, 512, 3, p=1, g=32)),
        ("ResNeXt-50 32x4d, conv5", _image(7, 1024, 1024, 3, p=1, g=32)),
        ("ResNeXt-50 32x4d, conv3 down", _image(56, 256, 256, 3, s=2, p=1, g=32)),
        ("ResNeXt-101 32x8d, conv4", _image(14, 1024, 1024, 3, p=1, g=32)),
        ("AlexNet, conv2", _image(27, 96, 256, 5, p=2, g=2)),
        ("AlexNet, conv4", _image(13, 384, 384, 3, p=1, g=2)),
        ("AlexNet, conv5", _image(13, 384, 256, 3, p=1, g=2)),
        ("ShuffleNet g=3, 1x1 at 28x28", _image(28, 240, 60, 1, g=3)),
        ("RegNetX-400MF, stage 3", _image(14, 160, 160, 3, p=1, g=10)),
        ("RegNetX-400MF, stage 4", _image(7, 400, 400, 3, p=1, g=25)),
    ),
    "T2D": (
        ("DCGAN, from the noise", _up(1, 1, 100, 512, 4, 1, 0)),
        ("DCGAN, 8x8 to 16x16", _up(8, 8, 256, 128, 4, 2, 1)),
        ("DCGAN, 16x16 to 32x32", _up(16, 16, 128, 64, 4, 2, 1)),
        ("DCGAN, 32x32 to an image", _up(32, 32, 64, 3, 4, 2, 1)),
        ("pix2pix, 2x2 to 4x4", _up(2, 2, 1024, 512, 4, 2, 1)),
        ("pix2pix, 32x32 to 64x64", _up(32, 32, 512, 128, 4, 2, 1)),
        ("U-Net, up-convolution to 56x56", _up(28, 28, 512, 256, 2, 2, 0)),
        ("StyleGAN2, up-convolution of 16x16", _up(16, 16, 512, 512, 3, 2, 0)),
        ("CycleGAN, 64x64 to 128x128", _up(64, 64, 256, 128, 3, 2, 1, 1)),
        ("Simple Baselines for pose, 16x12 to 32x24", _up(16, 12, 256, 256, 4, 2, 1)),
        ("FCN-8s, scores of 21 classes, 34x34", _up(34, 34, 21, 21, 4, 2, 0)),
        ("FSRCNN, to three times the size, 64x64", _up(64, 64, 56, 1, 9, 3, 4, 2)),
    ),
    "CBR": (
        ("ResNet-18, conv2", _image(56, 64, 64, 3, p=1)),
        ("ResNet-18, conv3 down", _image(56, 64, 128, 3, s=2, p=1)),
        ("ResNet-18, conv4", _image(14, 256, 256, 3, p=1)),
        ("ResNet-18, conv5", _image(7, 512, 512, 3, p=1)),
        ("ResNet-50, conv3 1x1 in", _image(28, 512, 128, 1)),
        ("MobileNet-v1, pointwise at 28x28", _image(28, 256, 256, 1)),
        ("MobileNet-v2, first convolution", _image(224, 3, 32, 3, s=2, p=1)),
        ("Inception-v3, Conv2d_2a", _image(149, 32, 32, 3)),
        ("DenseNet-121, growth at 28x28", _image(28, 128, 32, 3, p=1)),
        ("YOLOv2-tiny, first convolution, 416x416", _image(416, 3, 16, 3, p=1)),
        ("YOLOv2-tiny, conv3, 416x416", _image(104, 32, 64, 3, p=1)),
        ("U-Net with batch norm, second convolution at 128x128", _image(128, 64, 64, 3, p=1)),
    ),
    "TBG": (
        ("BERT-base, 384 tokens", _heads(384, 12, 64)),
        ("BERT-large, 128 tokens", _heads(128, 16, 64)),
        ("BERT-base, 512 tokens", _heads(512, 12, 64)),
        ("GPT-2, 1024 tokens", _heads(1024, 12, 64)),
        ("ViT-B/16, 224x224", _heads(197, 12, 64)),
        ("ViT-L/16, 384x384", _heads(577, 16, 64)),
        ("DeiT-Ti, 224x224", _heads(197, 3, 64)),
        ("T5-small, 512 tokens", _heads(512, 8, 64)),
        ("LLaMA-7B, 128 tokens", _heads(128, 32, 128)),
        ("Swin-T, 64 windows", _heads(49, 3, 32, batch=64)),
        ("BERT-base, a batch of 8, 64 tokens", _heads(64, 12, 64, batch=8)),
        ("MobileBERT, 128 tokens", _heads(128, 4, 32)),
    ),
    "NRM": (
        ("ResNet-50, classifier's weights", _matrix(2048, 1000)),
        ("BERT-base, feed-forward weights", _matrix(768, 3072)),
        ("BERT-base, attention's weights", _matrix(768, 768)),
        ("BERT-base, table of words", _matrix(30522, 768)),
        ("GPT-2, table of positions", _matrix(1024, 768)),
        ("AlexNet, fc6's weights, an eighth", _matrix(1152, 4096)),
        ("Transformer base, heads' keys", _matrix(128, 64, batch=8)),
        ("NetVLAD, clusters of descriptors", _matrix(64, 512)),
        ("Neural style, Gram matrix of conv1", _matrix(64, 64)),
        ("ArcFace, embeddings of 64 faces", _matrix(1, 512, batch=64)),
        ("LeNet-5, fully connected weights", _matrix(400, 120)),
        ("Private SGD, 32 gradients of a classifier", _matrix(10, 512, batch=32)),
    ),
    "SFM": (
        ("BERT-base, attention, 128 tokens", _rows(12 * 128, 128)),
        ("BERT-base, attention, 512 tokens", _rows(12 * 512, 512)),
        ("GPT-2, attention, 1024 tokens", _rows(12 * 1024, 1024)),
        ("ViT-B/16, attention, 197 tokens", _rows(12 * 197, 197)),
        ("Swin-T, attention in 64 windows", _rows(64 * 3 * 49, 49)),
        ("DETR, self-attention of 950 pixels", _rows(8 * 950, 950)),
        ("LLaMA-7B, attention, a token of 2048", _rows(32, 2048)),
        ("ResNet-50, classes of an image", _rows(1, 1000)),
        ("ResNet-50, classes of 64 images", _rows(64, 1000)),
        ("GPT-2, the next word", _rows(1, 50257)),
        ("BERT-base, words of 64 masks", _rows(64, 30522)),
        ("LeNet-5, digits of 128 images", _rows(128, 10)),
    ),
}
LAYERS: tuple[LayerShape, ...] = tuple(
    LayerShape(suite, source, params) for suite, shapes in _SHAPES.items() for source, params in shapes
)
