# SPDX-License-Identifier: Apache-2.0
"""Checkpoints from elsewhere: what is no parameter, what is tied, what is no checkpoint at all."""

import json
import shutil

import numpy as np
import pytest

from conftest import read_safetensors, refused, run, write_safetensors


class Checkpoint:
    """A copy of the small GPT-2 folder whose tensors a test changes, a plan for it, and data."""

    def __init__(self, folder, source):
        self.folder, self.plan, self.data = folder / "model", folder / "plan.ftlm", folder / "ids.npy"
        shutil.copytree(source, self.folder)
        run("ftlmc", source, "--batch", 2, "--micro-batch", 2, "--seq-len", 24, "-o", self.plan)
        np.save(self.data, np.random.default_rng(1).integers(0, 97, 200).astype(np.uint16))
        self.tensors = read_safetensors(self.folder / "model.safetensors")
        self.table = next(name for name in self.tensors if name.endswith("wte.weight"))

    def arguments(self):
        write_safetensors(self.folder / "model.safetensors", self.tensors)
        return "ftlm-run", "evaluate", self.plan, "--init", self.folder, "--data", self.data, "--json"

    def evaluate(self):
        done = run(*self.arguments())
        return json.loads(done.stdout)["loss"], done.stderr


@pytest.fixture
def checkpoint(golden, tmp_path):
    return Checkpoint(tmp_path, golden / "gpt2_tiny")


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.uint16, np.float16, np.float32, np.float64, np.int64])
def test_causal_masks_of_any_dtype_are_not_read(checkpoint, dtype):
    expected, _ = checkpoint.evaluate()
    prefix = checkpoint.table[:-len("wte.weight")]
    checkpoint.tensors[f"{prefix}h.0.attn.bias"] = np.tril(np.ones((1, 1, 32, 32))).astype(dtype)
    checkpoint.tensors[f"{prefix}h.0.attn.masked_bias"] = np.array(1).astype(dtype)
    loss, said = checkpoint.evaluate()
    assert loss == expected
    assert said == ""


def test_parameter_of_another_dtype_is_named(checkpoint):
    name = checkpoint.table.replace("wte.weight", "ln_f.bias")
    checkpoint.tensors[name] = checkpoint.tensors[name].astype(np.float16)
    refused(*checkpoint.arguments(), says=[name, "F16", "F32"])


def test_equal_copy_of_the_tied_table_is_silent(checkpoint):
    expected, _ = checkpoint.evaluate()
    checkpoint.tensors["lm_head.weight"] = checkpoint.tensors[checkpoint.table]
    assert checkpoint.evaluate() == (expected, "")


def test_output_that_differs_from_the_tied_table_is_refused(checkpoint):
    checkpoint.tensors["lm_head.weight"] = checkpoint.tensors[checkpoint.table].copy()
    checkpoint.tensors["lm_head.weight"][3, 4] += 1
    refused(*checkpoint.arguments(), says=["lm_head.weight", checkpoint.table, "differs"])


def test_missing_and_unexpected_tensors_are_all_named(checkpoint):
    name = checkpoint.table.replace("wte.weight", "h.1.mlp.c_fc.bias")
    del checkpoint.tensors[name]
    checkpoint.tensors["score.weight"] = np.zeros((2, 48), np.float32)
    refused(*checkpoint.arguments(), says=[f"{name} is missing", "score.weight is unexpected"])


def test_what_is_ignored_is_named(checkpoint):
    checkpoint.tensors["position_ids"] = np.arange(32)
    assert "note: position_ids is ignored" in checkpoint.evaluate()[1]


@pytest.mark.parametrize("contents, says", [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "git-lfs"),
    (b"\x80\x02}q\x00(X\x03\x00\x00\x00", "pickle"),
    (b"PK\x03\x04\x00\x00\x00\x00\x00\x00", "zip"),
    (b"<!DOCTYPE html>\n<html><body>404</body></html>", "HTML"),
    (b"", "too short"),
])
def test_files_that_are_no_weights_are_called_what_they_are(checkpoint, contents, says):
    arguments = checkpoint.arguments()
    (checkpoint.folder / "model.safetensors").write_bytes(contents)
    refused(*arguments, says=[str(checkpoint.folder / "model.safetensors"), says])
