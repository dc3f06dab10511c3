# SPDX-License-Identifier: Apache-2.0
"""Training for real: what is learnt, and that layout of the work, interruption and threads change no bit."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import BIN, assert_same_bits, metrics, run

FLAGS = ["--lr", 1e-3, "--warmup", 5, "--seed", 3]


def losses(folder):
    return [line["loss"] for line in metrics(folder / "metrics.jsonl")]


def test_overfits_a_small_text(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("A stitch in time saves nine, and a penny saved is a penny earned; who dares, wins the day. " * 4)
    plan = tmp_path / "plan.ftlm"
    run("ftlmc", "small", "--batch", 4, "--micro-batch", 4, "--seq-len", 64, "--dropout", 0, "-o", plan)
    run("ftlm-run", "train", plan, "--data", text, "--steps", 120, "--lr", 2e-3, "--warmup", 10, "--out", tmp_path / "run")
    loss = losses(tmp_path / "run")
    assert 5.2 < loss[0] < 5.9  # about ln 256
    assert loss[-1] < 0.1
    done = run("ftlm-run", "generate", plan, "--init", tmp_path / "run" / "last", "--prompt", "A stitch in", "--max-tokens", 24,
               "--temperature", 0)
    assert "A stitch in time saves nine, and" in done.stdout


def test_same_bits_again_and_with_another_number_of_threads(tmp_path, small_plan, text_file):
    for name, threads in [("a", 1), ("b", 1), ("c", 2)]:
        run("ftlm-run", "train", small_plan, "--data", text_file, "--steps", 6, "--threads", threads, "--out", tmp_path / name, *FLAGS)
    assert_same_bits(tmp_path / "a" / "last", tmp_path / "b" / "last")
    assert_same_bits(tmp_path / "a" / "last", tmp_path / "c" / "last")


def test_resume_in_the_middle_gives_the_same_bits(tmp_path, small_plan, text_file):
    common = ["--data", text_file, "--steps", 20, *FLAGS]
    run("ftlm-run", "train", small_plan, *common, "--out", tmp_path / "whole")
    process = subprocess.Popen([str(BIN / "ftlm-run"), "train", str(small_plan), "--out", str(tmp_path / "cut"),
                                *map(str, common)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # Stops somewhere in the middle: where exactly does not matter.
    deadline = time.monotonic() + 120
    log = tmp_path / "cut" / "metrics.jsonl"
    while time.monotonic() < deadline and process.poll() is None:
        if log.exists() and len(log.read_text().splitlines()) >= 3:
            process.send_signal(signal.SIGTERM)
            break
        time.sleep(0.005)
    assert process.wait(timeout=60) in (75, 0)
    run("ftlm-run", "train", small_plan, *common, "--out", tmp_path / "cut", "--resume")
    assert_same_bits(tmp_path / "whole" / "last", tmp_path / "cut" / "last")
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


def test_accumulation_equals_one_large_batch_within_rounding(tmp_path, text_file):
    result = {}
    for micro_batch in (8, 2):
        plan = tmp_path / f"{micro_batch}.ftlm"
        run("ftlmc", "small", "--batch", 8, "--micro-batch", micro_batch, "--seq-len", 64, "--dropout", 0, "-o", plan)
        run("ftlm-run", "train", plan, "--data", text_file, "--steps", 5, "--out", tmp_path / f"run{micro_batch}", *FLAGS)
        result[micro_batch] = losses(tmp_path / f"run{micro_batch}")
    np.testing.assert_allclose(result[2], result[8], rtol=1e-5)


def test_arena_is_what_the_plan_promises(tmp_path, small_plan, text_file):
    promised = json.loads(run("ftlm-run", "inspect", small_plan, "--json").stdout)
    run("ftlm-run", "train", small_plan, "--data", text_file, "--steps", 2, "--out", tmp_path / "run", "--report",
        tmp_path / "report.json")
    counted = json.loads((tmp_path / "report.json").read_text())
    for key in ("arena_bytes",):
        assert counted["ranks"][0][key] == promised["ranks"][0][key]
    assert counted["peak_rss_bytes"] > 0


def test_evaluation_does_not_depend_on_the_batch(tmp_path, text_file):
    values = []
    first = None
    for batch in (1, 3, 7):
        plan = tmp_path / f"{batch}.ftlm"
        run("ftlmc", "small", "--batch", batch, "--micro-batch", batch, "--seq-len", 64, "-o", plan)
        if first is None:
            run("ftlm-run", "train", plan, "--data", text_file, "--steps", 2, "--out", tmp_path / "run", *FLAGS)
            first = tmp_path / "run" / "last"
        values.append(json.loads(run("ftlm-run", "evaluate", plan, "--init", first, "--data", text_file, "--json").stdout))
    assert len({value["tokens"] for value in values}) == 1
    np.testing.assert_allclose([value["loss"] for value in values], values[0]["loss"], rtol=1e-6)
