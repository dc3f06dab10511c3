# SPDX-License-Identifier: Apache-2.0
"""Single updates against the formulas: one norm, decay by rank, schedules, numbers that are none."""

import math
import shutil

import numpy as np
import pytest

from conftest import metrics, read_safetensors, run, write_safetensors


@pytest.fixture
def step(golden, tmp_path):
    """Runs one step on the small GPT-2 and its first batch; returns parameters before and the dump."""
    folder = golden / "gpt2_tiny"

    def one(optimizer, *flags, weights=None):
        plan, batch, dump = (tmp_path / name for name in (f"{optimizer}.ftlm", "batch.safetensors", "dump.safetensors"))
        run("ftlmc", folder, "--batch", 6, "--micro-batch", 2, "--seq-len", 24, "--optimizer", optimizer, "-o", plan)
        tensors = read_safetensors(folder / "batches.safetensors")
        if weights is not None:
            tensors["weights"] = tensors["weights"].copy()
            tensors["weights"][0] = weights
        write_safetensors(batch, tensors)
        run("ftlm-run", "step", plan, "--init", folder, "--batch", batch, "--dump", dump, "--lr-schedule", "constant", "--warmup", 0,
            *flags)
        return read_safetensors(folder / "model.safetensors"), read_safetensors(dump)

    return one


def parts(dump, prefix):
    return {name[len(prefix):]: array.astype(np.float64) for name, array in dump.items() if name.startswith(prefix)}


@pytest.mark.parametrize("share", [0.5, 2])
def test_gradients_are_clipped_by_one_norm_over_unique_parameters(step, share):
    _, dump = step("sgd", "--clip", 0, "--lr", 0)
    gradients = parts(dump, "grad.")
    norm = math.sqrt(sum((g ** 2).sum() for g in gradients.values()))
    np.testing.assert_allclose(dump["grad_norm"][0], norm, rtol=1e-5)
    before, dump = step("sgd", "--clip", share * norm, "--lr", 0.5, "--weight-decay", 0)
    after = parts(dump, "final.")
    for name, gradient in gradients.items():
        np.testing.assert_allclose(after[name], before[name] - 0.5 * min(1, share) * gradient, atol=2e-6, err_msg=name)


def test_norms_and_biases_do_not_decay(step):
    before, dump = step("adamw", "--lr", 0.01, "--weight-decay", 0.1, weights=0)
    assert not any(gradient.any() for gradient in parts(dump, "grad.").values())
    ranks = set()
    for name, after in parts(dump, "final.").items():
        ranks.add(after.ndim)
        if after.ndim == 1:
            assert np.array_equal(after, before[name]), f"{name} changed"
        else:
            np.testing.assert_allclose(after, before[name] * (1 - 0.01 * 0.1), rtol=1e-6, err_msg=name)
    assert ranks == {1, 2}


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
@pytest.mark.parametrize("warmup", [0, 1, 6, 9])
def test_learning_rates_are_those_of_the_formula_also_after_a_resume(tmp_path, small_plan, text_file, kind, warmup):
    arguments = ["train", small_plan, "--data", text_file, "--steps", 6, "--lr", 0.002, "--lr-schedule", kind, "--warmup", warmup,
                 "--save-every", 3, "--keep", 0]
    done = run("ftlm-run", *arguments, "--out", tmp_path / "run")
    assert ("never reaches" in done.stderr) == (warmup >= 6)
    expected = []
    for i in range(6):
        x, w = i / 6, warmup / 6
        warm = w > 0 and x <= w
        factor = {"linear": (x / w if warm else 1) * (1 - x), "constant": x / w if warm else 1,
                  "cosine": x / w if warm else (1 + math.cos(math.pi * x)) / 2}[kind]
        expected.append(0.002 * factor)
    rates = [line["lr"] for line in metrics(tmp_path / "run" / "metrics.jsonl")]
    np.testing.assert_allclose(rates, expected, rtol=1e-12, atol=1e-18)
    shutil.rmtree(tmp_path / "run" / "step-6")
    run("ftlm-run", *arguments, "--out", tmp_path / "run", "--resume")
    assert [line["lr"] for line in metrics(tmp_path / "run" / "metrics.jsonl")] == rates


def test_losses_that_are_no_numbers_are_shown(tmp_path, small_plan, text_file):
    done = run("ftlm-run", "train", small_plan, "--data", text_file, "--steps", 4, "--lr", 1e38, "--warmup", 0, "--clip", 0,
               "--out", tmp_path / "run")
    updates = metrics(tmp_path / "run" / "metrics.jsonl")
    assert len(updates) == 4
    assert math.isfinite(updates[0]["loss"])
    assert not math.isfinite(updates[-1]["loss"])
    assert '"loss": NaN' in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1]
    assert "warning: step" in done.stderr
