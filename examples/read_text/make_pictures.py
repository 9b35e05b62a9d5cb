#!/usr/bin/env python3
"""Make the pictures of this folder: printed words as a camera sees them (tilted, blurred, unevenly lit, noisy). Needs Pillow, numpy."""
import os
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = [("threads", "Threads cross the warp", 1.2, 0.7), ("price", "TOTAL 42.50", -1.0, 0.9), ("street", "14 Weaver Street", 0.8, 1.1)]


def main():
    rng = np.random.default_rng(7)
    for name, text, angle, blur in WORDS:
        font = ImageFont.load_default(34)
        width = int(font.getlength(text)) + 48
        ink, paper = rng.integers(20, 70, 3), rng.integers(190, 235, 3)
        mask = Image.new("L", (width, 64), 0)
        ImageDraw.Draw(mask).text((24, 10), text, font=font, fill=255)
        mask = mask.rotate(angle, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(blur))
        m = np.asarray(mask, np.float32)[..., None] / 255
        light = np.linspace(0.75, 1.05, width, dtype=np.float32)[None, :, None] * np.linspace(1.0, 0.9, 64, dtype=np.float32)[:, None, None]
        picture = (m * ink + (1 - m) * paper) * light + rng.normal(0, 7, (64, width, 3))
        Image.fromarray(np.clip(picture, 0, 255).astype(np.uint8)).save(f"{HERE}/{name}.png", optimize=True)


if __name__ == "__main__":
    main()
