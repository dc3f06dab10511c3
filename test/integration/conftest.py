# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: running the programs, reading and writing safetensors."""

import json
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("FTLM_BIN", ROOT / "build" / "bin"))
SHARED = pathlib.Path(os.environ.get("FTLM_SHARED", ROOT.parent / "shared"))

DTYPES = {"F32": np.float32, "F64": np.float64, "F16": np.float16, "I32": np.int32, "I64": np.int64, "I16": np.int16,
          "I8": np.int8, "U32": np.uint32, "U64": np.uint64, "U16": np.uint16, "U8": np.uint8, "BOOL": np.bool_}


def run(program, *arguments, code=0, **options):
    """Runs build/bin/PROGRAM and checks its exit code; returns the finished process (text)."""
    command = [str(BIN / program)] + [str(argument) for argument in arguments]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=900, **options)
    assert done.returncode == code, (
        f"{' '.join(command)}\nended with {done.returncode}, expected {code}\n{done.stdout}\n{done.stderr}")
    return done


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, info in header.items():
        begin, end = (8 + size + offset for offset in info["data_offsets"])
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[info["dtype"]]).reshape(info["shape"])
    return tensors


def write_safetensors(path, tensors):
    names = {np.dtype(value): key for key, value in DTYPES.items()}
    header, body, offset = {}, b"", 0
    for name, array in sorted(tensors.items()):
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape), "data_offsets": [offset, offset + len(raw)]}
        body += raw
        offset += len(raw)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def refused(program, *arguments, code=2, says=()):
    """Runs a program that must end with `code` and say all of `says`; returns what it said."""
    done = run(program, *arguments, code=code)
    for text in says:
        assert text in done.stderr, f"expected {text!r} in:\n{done.stderr}"
    return done.stderr


def metrics(path, event=None):
    """The lines of a metrics file: the updates, or those of one kind of event."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [line for line in lines if line.get("event") == event]


def compare(found, expected, tolerance):
    """Checks every tensor of `expected`; prints the worst when one is off. tolerance(name, array) is absolute."""
    worst = []
    for name, want in expected.items():
        assert name in found, f"{name} is missing; found {sorted(found)[:5]} ..."
        got = found[name]
        assert got.shape == want.shape, f"{name} has shape {got.shape}, expected {want.shape}"
        error = float(np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)))) if want.size else 0.0
        worst.append((error / tolerance(name, want), error, name))
    worst.sort(reverse=True)
    table = "\n".join(f"{ratio:10.3f} of the tolerance  error {error:.3e}  {name}" for ratio, error, name in worst[:8])
    assert worst[0][0] <= 1 and not np.isnan(worst[0][0]), table
    return table


def assert_same_bits(left, right):
    """Checks that the models in two checkpoints are the same, bit for bit."""
    left, right = (read_safetensors(folder / "model.safetensors") for folder in (left, right))
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].tobytes() == right[name].tobytes(), f"{name} differs"


@pytest.fixture
def golden():
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip(f"reference values are not there: {folder}")
    return folder


@pytest.fixture(scope="session")
def text_file(tmp_path_factory):
    """A small English text with structure to learn, made here."""
    words = "the cat sat on a mat while one dog ran to see that old red house by our lake".split()
    generator = np.random.default_rng(7)
    sentences = [" ".join(generator.choice(words, size=generator.integers(4, 9))).capitalize() + "." for _ in range(400)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(" ".join(sentences))
    return path


@pytest.fixture(scope="session")
def small_plan(tmp_path_factory):
    """A plan for models/small.toml: 8 sequences of 64 bytes a step in two micro-batches."""
    path = tmp_path_factory.mktemp("plan") / "small.ftlm"
    run("ftlmc", "small", "--batch", 8, "--micro-batch", 4, "--seq-len", 64, "-o", path)
    return path
