"""The checksums of crates/fileio, computed word by word from their definition.

`python3 vectors.py > vectors.json` generates the test vectors. The data comes from the same
generator as in the test:
x = x · 6364136223846793005 + 1442695040888963407 modulo 2⁶⁴, one byte per step, the highest of x.
"""

import json

MASK = (1 << 64) - 1


def sums(data):
    xor, position = 0, 0
    for index in range(0, len(data), 4):
        word = int.from_bytes(data[index:index + 4].ljust(4, b"\0"), "little")
        xor ^= word
        position = (position + (index // 4 + 1) * word) & MASK
    return f"{xor:08x}", f"{position:016x}"


def data(seed, length):
    made, x = bytearray(), seed
    for _ in range(length):
        x = (x * 6364136223846793005 + 1442695040888963407) & MASK
        made.append(x >> 56)
    return bytes(made)


def case(seed, length):
    xor, position = sums(data(seed, length))
    return {"seed": seed, "length": length, "xor": xor, "position": position}


def text(words):
    xor, position = sums(words)
    return {"hex": words.hex(), "xor": xor, "position": position}


def main():
    lengths = list(range(0, 70)) + [127, 128, 129, 255, 256, 257, 1000, 4095, 4096, 4097, 65537]
    cases = [(seed, length) for seed, length in enumerate(lengths)]
    texts = [b"", b"\0" * 7, b"\0" * 4096, b"abcd", b"abcde", b"\xff" * 4096, b"efghabcd"]
    made = {"texts": [text(t) for t in texts], "cases": [case(*c) for c in cases]}
    print(json.dumps(made, indent=1))


main()
