# SPDX-License-Identifier: Apache-2.0
"""Bad input ends with the right exit code and a message that names the place and what would be right."""

import re

import pytest

from conftest import refused, run


@pytest.mark.parametrize("program", ["ftlmc", "ftlm-run"])
def test_help_and_version(program):
    assert "--help" in run(program, "--help").stdout
    assert re.search(r"\d+\.\d+\.\d+", run(program, "--version").stdout)


@pytest.mark.parametrize("command", ["train", "evaluate", "generate", "step", "inspect", "tokenize", "doctor"])
def test_each_command_has_help(command):
    assert "--help" in run("ftlm-run", command, "--help").stdout


def test_unknown_model_names_the_known_ones(tmp_path):
    refused("ftlmc", "gpt7", "-o", tmp_path / "p.ftlm", says=["gpt7", "gpt2"])


def test_sequence_longer_than_the_positions(tmp_path):
    refused("ftlmc", "gpt1", "--seq-len", 513, "-o", tmp_path / "p.ftlm", says=["513", "512"])


def test_unknown_option_value(tmp_path):
    refused("ftlmc", "small", "--optimizer", "lion", "-o", tmp_path / "p.ftlm", says=["lion", "adamw"])


def test_damaged_plan(tmp_path, small_plan, text_file):
    data = small_plan.read_bytes()
    for name, bad in [("cut", data[:-7]), ("flipped", data[:4000] + bytes([data[4000] ^ 4]) + data[4001:]),
                      ("version", data[:8] + b"\x63" + data[9:]), ("other", b"hello"), ("empty", b"")]:
        path = tmp_path / f"{name}.ftlm"
        path.write_bytes(bad)
        refused("ftlm-run", "train", path, "--data", text_file, "--out", tmp_path / "run", says=[str(path)])
    assert not (tmp_path / "run").exists()


def test_text_that_is_empty_short_a_folder_or_missing(tmp_path, small_plan):
    empty, short = tmp_path / "empty.txt", tmp_path / "short.txt"
    empty.write_text("")
    short.write_text("too short")
    for path, says in [(empty, []), (short, ["9", "65"]), (tmp_path, []), (tmp_path / "none.txt", [])]:
        refused("ftlm-run", "train", small_plan, "--data", path, "--out", tmp_path / "run", says=[str(path), *says])


def test_output_folder_in_use(tmp_path, small_plan, text_file):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").write_text("mine")
    refused("ftlm-run", "train", small_plan, "--data", text_file, "--out", tmp_path / "run", says=["run", "--resume"])


def test_weights_of_another_model(tmp_path, small_plan, golden, text_file):
    refused("ftlm-run", "train", small_plan, "--init", golden / "gpt2_tiny", "--data", text_file, "--out", tmp_path / "run",
            says=["transformer.wte.weight", "transformer.wpe.weight"])
