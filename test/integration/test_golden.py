# SPDX-License-Identifier: Apache-2.0
"""ftlm-run step against values computed by PyTorch in float64."""

import json

import numpy as np
import pytest

from conftest import compare, read_safetensors, run

FLAGS = ["--steps", 5, "--lr", 0.003, "--beta1", 0.9, "--beta2", 0.95, "--eps", 1e-5, "--weight-decay", 0.1, "--clip", 1,
         "--lr-schedule", "constant", "--warmup", 0]


@pytest.mark.parametrize("micro_batch", [6, 3, 2, 1])
def test_gpt2_tiny(golden, tmp_path, micro_batch):
    folder = golden / "gpt2_tiny"
    plan, dump = tmp_path / "plan.ftlm", tmp_path / "dump.safetensors"
    run("ftlmc", folder, "--batch", 6, "--micro-batch", micro_batch, "--seq-len", 24, "-o", plan)
    run("ftlm-run", "step", plan, "--init", folder, "--batch", folder / "batches.safetensors", "--dump", dump, *FLAGS)
    found = read_safetensors(dump)
    log = json.loads((folder / "expected.json").read_text())
    np.testing.assert_allclose(found["loss"], log["loss"], rtol=2e-5)
    np.testing.assert_allclose(found["grad_norm"], log["grad_norm"], rtol=1e-4)
    expected = read_safetensors(folder / "expected.safetensors")
    norm = log["grad_norm"][0]
    print(compare(found, {k: v for k, v in expected.items() if k.startswith("grad.")},
                  lambda name, array: 1e-4 * max(float(np.abs(array).max()), 1e-3 * norm)))
    print(compare(found, {k: v for k, v in expected.items() if k.startswith("final.")}, lambda name, array: 1e-5))
