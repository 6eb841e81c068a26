"""Vision features of MiniVLA's backbones, by timm and by this library from the same weights, must be equal.

    python benchmarks/minivla_timm_equality.py                   # full size, random weights: needs 8 GB
    python benchmarks/minivla_timm_equality.py --tiny            # seconds
    python benchmarks/minivla_timm_equality.py --tiny --write tests/policies/minivla/data/timm_features.npz

It needs timm beside the library (timm==0.9.10 is what MiniVLA was trained with); the test suite reads what `--write`
wrote and needs none. Weights are random: those of the hub are not needed to compare arithmetic. Every parameter is
drawn anew, for timm's own initialisation has LayerScale at 1e-5, which would hide any error inside a block.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import Any

import numpy as np
import torch
from PIL import Image

DINO, SIGLIP = "vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"
HEADS = 16


def import_timm() -> Any:
    """Timm, even if torchvision's operators do not fit the installed torch: vision transformers use none of them."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    while True:
        try:
            import timm

            import_timm.keep = library  # type: ignore[attr-defined]
            return timm
        except RuntimeError as error:
            missing = re.match(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}(Tensor x) -> Tensor")
            for name in [name for name in sys.modules if name.split(".")[0] in ("torchvision", "timm")]:
                del sys.modules[name]


@torch.no_grad()
def draw_weights(model: torch.nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim > 1 and "token" not in name and "embed" not in name.split(".")[0]:
            noise *= parameter[0].numel() ** -0.5
        elif name.endswith("gamma") or (name.endswith("weight") and parameter.ndim == 1):
            noise = 1 + 0.3 * noise
        else:
            noise *= 0.3
        parameter.copy_(noise.half().float())  # so that a file of half precision holds them exactly


@torch.no_grad()
def by_timm(timm: Any, name: str, image: Image.Image, seed: int, **sizes: Any) -> tuple[dict[str, Any], np.ndarray]:
    """Weights, and patch features of the second-to-last block, shape (patches, width), as Prismatic asks for them."""
    from torchvision.transforms import Compose, Resize

    model = timm.create_model(name, pretrained=False, num_classes=0, img_size=image.size[0], **sizes).eval()
    draw_weights(model, seed)
    config = {**timm.data.resolve_model_data_config(model), "input_size": (3, *image.size)}
    steps = timm.data.create_transform(**config, is_training=False).transforms
    pixels = Compose([Resize(image.size, interpolation=steps[0].interpolation), *steps[1:]])(image)
    features = model.get_intermediate_layers(pixels[None], n={len(model.blocks) - 2})[0][0]
    return model.state_dict(), features.numpy()


@torch.no_grad()
def by_this_library(dino: dict[str, Any], siglip: dict[str, Any], image: Image.Image) -> np.ndarray:
    # Behind timm: transformers imports torchvision where it is installed, and would trip over its operators.
    from wmrl_gym.policies.minivla.timm_weights import dino_weights, siglip_weights, vision_settings
    from wmrl_gym.policies.minivla.vision import FusedVision

    vision = FusedVision(vision_settings(dino, HEADS), vision_settings(siglip, HEADS)).eval()
    vision.dino.load_state_dict(dino_weights(dino))
    vision.siglip.load_state_dict(siglip_weights(siglip))
    return vision(torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())[None])[0].numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="three blocks of width 32, a picture of 42 pixels")
    parser.add_argument("--write", help="file (.npz) for weights, picture and timm's features")
    arguments = parser.parse_args()
    timm = import_timm()
    side = 42 if arguments.tiny else 224
    sizes = {"depth": 3, "embed_dim": 32, "num_heads": HEADS} if arguments.tiny else {}
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (side, side, 3), np.uint8))
    dino, dino_features = by_timm(timm, DINO, image, seed=1, **sizes)
    siglip, siglip_features = by_timm(timm, SIGLIP, image, seed=2, **sizes)
    expected = np.concatenate([dino_features, siglip_features], axis=1)
    features = by_this_library(dino, siglip, image)
    result = {
        "timm": timm.__version__,
        "torch": torch.__version__,
        "shape": list(expected.shape),
        "standard_deviation": float(expected.std()),
        "largest_difference": float(np.abs(features - expected).max()),
    }
    print(json.dumps(result))
    if arguments.write:
        weights = {f"dino.{name}": values.numpy().astype(np.float16) for name, values in dino.items()}
        weights |= {f"siglip.{name}": values.numpy().astype(np.float16) for name, values in siglip.items()}
        np.savez_compressed(arguments.write, image=np.asarray(image), features=expected, **weights)
    if not result["largest_difference"] < 1e-4 * result["standard_deviation"]:
        sys.exit("the features differ")


if __name__ == "__main__":
    main()
