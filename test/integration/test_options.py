# SPDX-License-Identifier: Apache-2.0
"""Options of training beside the update rule: a file of options, samples, the share of the peak."""

import json

import pytest

from conftest import assert_same_bits, metrics, refused, run

COMMANDS = ["train", "evaluate", "generate", "step", "inspect", "tokenize", "doctor"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_tells_of_the_file_of_options(command):
    assert "--config FILE" in run("ftlm-run", command, "--help").stdout


def test_help_tells_of_the_options_of_training():
    text = run("ftlm-run", "train", "--help").stdout
    for option in ("--sample-every", "--sample-prompt", "--sample-tokens", "--peak-tflops", "--overlong", "completion"):
        assert option in text
    assert "--report" in run("ftlm-run", "step", "--help").stdout


def test_options_come_from_a_file_and_the_command_line_wins(tmp_path, small_plan, text_file):
    config = tmp_path / "run.toml"
    config.write_text(f'# a run\nlr = 3e-4\nseed = 5\nsteps = 9\n[train]\ndata = ["{text_file}"]\nclip = 0.5\n[generate]\ntop-k = 3\n')
    run("ftlm-run", "train", small_plan, "--config", config, "--steps", 2, "--out", tmp_path / "run")
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())
    assert (settings["lr"], settings["seed"], settings["steps"], settings["clip"]) == (3e-4, 5, 2, 0.5)
    run("ftlm-run", "train", small_plan, "--data", text_file, "--lr", 3e-4, "--seed", 5, "--steps", 2, "--clip", 0.5, "--out",
        tmp_path / "same")
    assert_same_bits(tmp_path / "run" / "last", tmp_path / "same" / "last")


@pytest.mark.parametrize("text, says", [
    ("lrr = 1", ["'lrr' is no option of train"]),
    ("[fly]\nlr = 1", ["[fly] is no command"]),
    ("[train.deep]\nlr = 1", ["train"]),
    ('lr = "much"', ["--lr", "much"]),
    ("lr-schedule = 'step'", ["step", "cosine"]),
    ("[generate]\nlr = 1", ["'lr' is no option of generate"]),
])
def test_mistakes_in_the_file_are_named(tmp_path, small_plan, text_file, text, says):
    config = tmp_path / "run.toml"
    config.write_text(text)
    refused("ftlm-run", "train", small_plan, "--data", text_file, "--out", tmp_path / "run", "--config", config, says=says)
    assert not (tmp_path / "run").exists()


def test_file_of_options_that_is_missing(tmp_path, small_plan, text_file):
    refused("ftlm-run", "train", small_plan, "--data", text_file, "--out", tmp_path / "run", "--config", tmp_path / "none.toml",
            says=["none.toml"])


def test_samples_are_printed_and_change_nothing(tmp_path, small_plan, text_file):
    arguments = ["train", small_plan, "--data", text_file, "--steps", 5, "--seed", 3, "--lr", 1e-3]
    run("ftlm-run", *arguments, "--out", tmp_path / "without")
    done = run("ftlm-run", *arguments, "--out", tmp_path / "with", "--sample-every", 2, "--sample-prompt", "The cat", "--sample-tokens", 9)
    printed = [line.split(": ", 1) for line in done.stdout.splitlines() if line.startswith("step ")]
    assert [step for step, _ in printed] == ["step 2", "step 4"]
    events = metrics(tmp_path / "with" / "metrics.jsonl", "sample")
    assert [(line["step"], line["text"]) for line in events] == [(2, json.loads(printed[0][1])), (4, json.loads(printed[1][1]))]
    assert all(line["text"].startswith("The cat") and len(line["text"]) > len("The cat") for line in events)
    assert_same_bits(tmp_path / "with" / "last", tmp_path / "without" / "last")


def test_samples_without_a_prompt_or_a_program_are_refused_before_the_run(tmp_path, small_plan, text_file):
    common = ["--data", text_file, "--out", tmp_path / "run", "--sample-every", 2]
    refused("ftlm-run", "train", small_plan, *common, says=["--sample-prompt", "empty"])
    assert not (tmp_path / "run").exists()


def test_share_of_the_peak_is_told_where_the_peak_is_known(tmp_path, small_plan, text_file):
    arguments = ["train", small_plan, "--data", text_file, "--steps", 2]
    run("ftlm-run", *arguments, "--out", tmp_path / "unknown")
    assert [line["mfu"] for line in metrics(tmp_path / "unknown" / "metrics.jsonl")] == ["n/a", "n/a"]
    run("ftlm-run", *arguments, "--out", tmp_path / "known", "--peak-tflops", 0.25)
    flops = json.loads(run("ftlm-run", "inspect", small_plan, "--json").stdout)["ranks"][0]["matmul_flops"]
    for line in metrics(tmp_path / "known" / "metrics.jsonl"):
        assert line["mfu"] == pytest.approx(flops / (line["step_ms"] / 1000) / 0.25e12)
