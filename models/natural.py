"""Inputs like those that models meet in use: pictures of words, a voice, files, sentences."""

import numpy as np

FONT = {  # 5x7, one string a row
    "A": "01110 10001 10001 11111 10001 10001 10001",
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "F": "11111 10000 10000 11110 10000 10000 10000",
    "I": "01110 00100 00100 00100 00100 00100 01110",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "N": "10001 11001 10101 10101 10011 10001 10001",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "S": "01111 10000 10000 01110 00001 00001 11110",
    "T": "11111 00100 00100 00100 00100 00100 00100",
    "W": "10001 10001 10001 10101 10101 11011 10001",
    "2": "01110 10001 00001 00110 01000 10000 11111",
    "7": "11111 00001 00010 00100 01000 01000 01000",
    " ": "00000 00000 00000 00000 00000 00000 00000",
}
WORDS = ["WEFT 27", "LOFT", "FELT SILO", "RENT A SAW", "TIN 722", "WOOL"]


def blur(picture):
    for axis in (0, 1):
        picture = (np.roll(picture, 1, axis) + 2 * picture + np.roll(picture, -1, axis)) / 4
    return picture


def word(text, height, width, rng):
    """Dark letters on uneven light paper, unsharp and noisy, 3 equal channels in [-1, 1]."""
    glyphs = [FONT[c].split() for c in text]
    rows = np.array([[int(bit) for glyph in glyphs for bit in glyph[r] + "0"] for r in range(7)])
    scale = max(1, min((height - 8) // 7, (width - 8) // rows.shape[1]))
    ink = np.kron(rows, np.ones((scale, scale)))
    paper = 0.8 + 0.1 * np.linspace(-1, 1, width)[None, :] * np.ones((height, 1))
    top, left = (height - ink.shape[0]) // 2, 4
    paper[top : top + ink.shape[0], left : left + ink.shape[1]] -= 0.65 * ink
    return 2 * np.clip(blur(blur(paper)) + rng.normal(0, 0.03, (height, width)), 0, 1) - 1


def lines(count, height, width):
    """[count, 3, height, width]: one word each."""
    rng = np.random.default_rng(1)
    pictures = [word(WORDS[i % len(WORDS)], height, width, rng) for i in range(count)]
    return np.repeat(np.stack(pictures)[:, None], 3, axis=1).astype(np.float32)


def pages(count, height, width):
    """[count, 3, height, width]: words below one another."""
    rng = np.random.default_rng(2)
    pictures = 0.6 + rng.normal(0, 0.06, (count, 1, height, width))
    for picture in pictures[:, 0]:
        for i, top in enumerate(range(16, height - 48, 64)):
            picture[top : top + 40, 20:-20] = word(WORDS[i % len(WORDS)], 40, width - 40, rng)
    return np.repeat(pictures, 3, axis=1).astype(np.float32)


def voice(samples, rate=16000):
    """Half-second syllables with pauses: harmonics of a gliding pitch under three formants."""
    rng = np.random.default_rng(3)
    t = np.arange(samples) / rate
    pitch = 120 + 20 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    sound = np.zeros(samples)
    for k in range(1, 13):
        formants = [np.exp(-(((k * pitch - centre) / 150) ** 2)) for centre in (600, 1200, 2500)]
        sound += (sum(formants) + 0.05) * np.sin(k * phase)
    syllable = np.clip(np.sin(2 * np.pi * 2 * t), 0, 1) ** 0.5
    return (0.15 * sound * syllable + rng.normal(0, 0.003, samples)).astype(np.float32)


def source_files(root, count):
    """[count, 2048] as magika reads files: the first and last 1024 bytes of each without outer
    white space, 256 where a file has fewer. The files are this project's own, as they are."""
    kinds = (".cpp", ".h", ".py", ".md", ".txt", ".cmake", ".json")
    files = sorted(
        path
        for path in root.rglob("*")
        if path.suffix in kinds and path.is_file() and path.relative_to(root).parts[0] != "build"
    )[:count]
    rows = np.full((count, 2048), 256, np.int32)
    for i, path in enumerate(files):
        content = path.read_bytes().strip()
        head, tail = content[:1024], content[-1024:]
        rows[i, : len(head)] = list(head)
        rows[i, 2048 - len(tail) :] = list(tail)
    return rows


def padded_sentences(inputs):
    """The same ids, the last quarter padding, the second half another segment."""
    length = inputs["attention_mask"].shape[1]
    mask, segment = inputs["attention_mask"].copy(), inputs["token_type_ids"].copy()
    mask[:, length - length // 4 :] = 0
    segment[:, length // 2 :] = 1
    return inputs | {"attention_mask": mask, "token_type_ids": segment}
