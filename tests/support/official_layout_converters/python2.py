"""Pickles as Python 2 wrote them, in which CIFAR-10's official batches are: text is bytes, the protocol is 2."""

import struct

import numpy as np


def batch(pixels: np.ndarray, labels: list[int], names: list[str]) -> bytes:
    """A batch of CIFAR-10, byte for byte as cPickle writes it (but for the order of the dictionary).

    Args:
        pixels: [n, 3072] uint8.
    """
    items = [
        string("batch_label") + string("training batch 1 of 5"),
        string("labels") + listed([b"K" + bytes([label]) for label in labels]),
        string("data") + array(pixels),
        string("filenames") + listed([string(name) for name in names]),
    ]
    return b"\x80\x02}(" + b"".join(items) + b"u."


def string(text: str | bytes) -> bytes:
    content = text.encode("latin-1") if isinstance(text, str) else text
    return (b"U" + bytes([len(content)]) if len(content) < 256 else b"T" + struct.pack("<i", len(content))) + content


def listed(items: list[bytes]) -> bytes:
    return b"](" + b"".join(items) + b"e"


def array(values: np.ndarray) -> bytes:
    shape = b"".join(b"J" + struct.pack("<i", size) for size in values.shape)
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    begun = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return begun + b"(K\x01(" + shape + b"t" + kind + b"\x89" + string(values.tobytes()) + b"tb"
