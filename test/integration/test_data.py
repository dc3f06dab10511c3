# SPDX-License-Identifier: Apache-2.0
"""Text, lines and ids: what counts as a target, and what is refused with its place."""

import json

import numpy as np
import pytest

from conftest import metrics, read_safetensors, refused, run, write_safetensors

TIME = 64


@pytest.fixture(scope="session")
def trained(tmp_path_factory, small_plan, text_file):
    """A checkpoint of a few steps: its losses are not those of fresh parameters."""
    out = tmp_path_factory.mktemp("trained") / "run"
    run("ftlm-run", "train", small_plan, "--data", text_file, "--steps", 5, "--lr", 1e-3, "--out", out)
    return out / "last"


def lines(path, *pairs):
    path.write_text("".join(json.dumps({"prompt": prompt, "completion": completion}) + "\n" for prompt, completion in pairs))
    return path


def evaluate(plan, checkpoint, data, *more):
    done = run("ftlm-run", "evaluate", plan, "--init", checkpoint, "--data", data, "--json", *more)
    result = json.loads(done.stdout)
    return result["loss"] * result["tokens"], result["tokens"], done.stderr


def test_carriage_returns_are_told(tmp_path, small_plan, trained):
    text = tmp_path / "text.txt"
    text.write_bytes(b"one line\r\n" * 20)
    assert f"{text} has carriage returns" in evaluate(small_plan, trained, text)[2]


def test_empty_documents_are_skipped_and_counted(tmp_path, small_plan, trained):
    plain, gaps = tmp_path / "plain.jsonl", tmp_path / "gaps.jsonl"
    texts = ["first " * 9, "second " * 9]
    plain.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    gaps.write_text("".join(json.dumps({"text": text}) + "\n" for text in ["", texts[0], "", texts[1], ""]))
    expected, found = evaluate(small_plan, trained, plain), evaluate(small_plan, trained, gaps)
    assert found[:2] == expected[:2]
    assert "3 of 5 documents are empty" in found[2]


def test_completion_after_one_byte_is_the_text(tmp_path, small_plan, trained):
    text = "The cat sat on a mat while one dog ran to see that old red house."
    assert len(text) == TIME + 1
    (tmp_path / "text.txt").write_text(text)
    expected = evaluate(small_plan, trained, tmp_path / "text.txt")
    found = evaluate(small_plan, trained, lines(tmp_path / "lines.jsonl", (text[0], text[1:])))
    assert found[:2] == expected[:2]


@pytest.mark.parametrize("cut", [2, 17, 63])
def test_loss_is_on_completions_only(tmp_path, small_plan, trained, cut):
    text = "The cat sat on a mat while one dog ran to see that old red house."
    whole = evaluate(small_plan, trained, lines(tmp_path / "whole.jsonl", (text[0], text[1:])))
    first = evaluate(small_plan, trained, lines(tmp_path / "first.jsonl", (text[0], text[1:cut])))
    rest = evaluate(small_plan, trained, lines(tmp_path / "rest.jsonl", (text[:cut], text[cut:])))
    assert rest[1] == len(text) - cut
    assert first[1] + rest[1] == whole[1]
    np.testing.assert_allclose(first[0] + rest[0], whole[0], rtol=1e-5)


def test_lines_longer_than_a_window(tmp_path, small_plan, trained):
    fits, long = ("ab", "c" * (TIME - 1)), ("ab", "c" * TIME)
    assert evaluate(small_plan, trained, lines(tmp_path / "fits.jsonl", fits))[1] == TIME - 1
    data = lines(tmp_path / "long.jsonl", fits, long)
    refused("ftlm-run", "evaluate", small_plan, "--init", trained, "--data", data,
            says=[f"{data}:2", f"{TIME + 2} tokens", f"holds {TIME + 1}", "--overlong"])
    cut, dropped = (evaluate(small_plan, trained, data, "--overlong", how) for how in ("cut", "drop"))
    assert (cut[1], dropped[1]) == (2 * (TIME - 1), TIME - 1)
    assert "1 of 2 lines" in cut[2] and "1 of 2 lines" in dropped[2]


def test_bad_line_is_named(tmp_path, small_plan, trained):
    data = tmp_path / "bad.jsonl"
    data.write_text('{"text": "good"}\n{"prompt": "no completion"}\n')
    refused("ftlm-run", "evaluate", small_plan, "--init", trained, "--data", data, says=[f"{data}:2", "completion"])


def test_step_without_targets_is_told_and_counted(tmp_path, small_plan):
    # 8 lines a step, 16 an epoch: with this seed some steps have no target and some do.
    data = lines(tmp_path / "lines.jsonl", *[(f"prompt {i}", "") for i in range(15)], ("prompt", " done"))
    done = run("ftlm-run", "train", small_plan, "--data", data, "--steps", 4, "--out", tmp_path / "run", "--report",
               tmp_path / "report.json")
    updates = metrics(tmp_path / "run" / "metrics.jsonl")
    masked = [line for line in updates if line["tokens"] == 0]
    assert len(masked) == 2 and updates[-1]["masked_steps"] == 2
    assert all(line["loss"] == 0 and line["grad_norm"] == 0 for line in masked)
    assert all(line["loss"] > 1 and line["grad_norm"] > 0 and line["tokens"] == 5 for line in updates if line not in masked)
    assert f"all targets of step {masked[0]['step']} are masked" in done.stderr
    assert json.loads((tmp_path / "report.json").read_text())["masked_steps"] == 2


@pytest.mark.parametrize("option", ["--data", "--valid"])
def test_data_without_any_target_is_refused(tmp_path, small_plan, text_file, option):
    data = lines(tmp_path / "lines.jsonl", *[(f"prompt {i}", "") for i in range(8)])
    arguments = {"--data": text_file, option: data}
    refused("ftlm-run", "train", small_plan, *[part for pair in arguments.items() for part in pair], "--out", tmp_path / "run",
            says=[str(data), "no target"])
    assert not (tmp_path / "run").exists()


def test_steps_on_given_tensors_without_targets(tmp_path, small_plan, trained):
    generator = np.random.default_rng(3)
    tensors = {name: generator.integers(0, 256, (2, 8, TIME)).astype(np.int32) for name in ("tokens", "targets")}
    tensors["weights"] = np.zeros((2, 8, TIME), np.float32)
    batch, dump, report = (tmp_path / name for name in ("batch.safetensors", "dump.safetensors", "report.json"))
    arguments = ["step", small_plan, "--init", trained, "--batch", batch, "--dump", dump, "--steps", 2, "--report", report]
    write_safetensors(batch, tensors)
    refused("ftlm-run", *arguments, says=[str(batch), "all its weights are 0"])
    tensors["weights"][1, 3, 5] = 1
    write_safetensors(batch, tensors)
    assert "all targets of step 1 are masked" in run("ftlm-run", *arguments).stderr
    found = read_safetensors(dump)
    assert found["loss"][0] == 0 and found["grad_norm"][0] == 0
    assert found["loss"][1] > 0 and found["grad_norm"][1] > 0
    assert all(not array.any() for name, array in found.items() if name.startswith("grad."))
    facts = json.loads(report.read_text())
    assert (facts["steps"], facts["masked_steps"]) == (2, 1)
    assert facts["ranks"][0]["arena_bytes"] == json.loads(run("ftlm-run", "inspect", small_plan, "--json").stdout)["ranks"][0]["arena_bytes"]
    tensors["weights"][0, 0, 7] = np.nan
    write_safetensors(batch, tensors)
    refused("ftlm-run", *arguments, says=[str(batch), "step 0, sequence 0, position 7"])
