# SPDX-License-Identifier: Apache-2.0
"""Interrupted runs: killed, out of disk, damaged, resumed. What comes out is what an undisturbed run gives."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import pytest

from conftest import BIN, assert_same_bits, metrics, refused, run

FLAGS = ["--lr", 1e-3, "--warmup", 5, "--seed", 3]


def told(folder):
    """The lines of a run's metrics without what differs from one run to the next."""
    vary = ("step_ms", "tokens_per_s", "data_wait_ms", "mfu")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in vary} for line in lines]


def start(*arguments):
    return subprocess.Popen([str(BIN / "ftlm-run"), *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process):
    """Waits until condition() holds or the process ended."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None and not condition():
        time.sleep(0.002)


def lines_in(path):
    return path.read_text().count("\n") if path.exists() else 0


@pytest.fixture(scope="session")
def training(tmp_path_factory, small_plan, text_file):
    """The arguments of a run with evaluations and checkpoints, and the folder of an undisturbed one."""
    arguments = ["train", small_plan, "--data", text_file, "--valid", text_file, "--steps", 14, "--eval-every", 3, "--save-every", 2,
                 "--keep", 2, *FLAGS]
    out = tmp_path_factory.mktemp("undisturbed") / "run"
    run("ftlm-run", *arguments, "--out", out)
    return arguments, out


@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_random_points_and_resumed(tmp_path, training, seed):
    arguments, undisturbed = training
    generator, out = random.Random(seed), tmp_path / "run"
    points = []
    for _ in range(5):
        process = start(*arguments, "--out", out, *(["--resume"] if out.exists() else []))
        # Some lines of metrics further on, and a moment more, so that saves and evaluations are hit, too.
        log, more, pause = out / "metrics.jsonl", generator.randint(1, 5), generator.uniform(0, 0.05)
        points.append((more, round(pause, 3)))
        before = lines_in(log)
        wait_for(lambda: lines_in(log) >= before + more, process)
        time.sleep(pause)
        process.kill()
        process.wait()
    run("ftlm-run", *arguments, "--out", out, "--resume")
    print(f"seed {seed}: killed after {points}")
    for link in ("last", "best"):
        assert os.readlink(out / link) == os.readlink(undisturbed / link)
        assert_same_bits(out / link, undisturbed / link)
    assert told(out) == told(undisturbed)
    assert not [path for path in out.iterdir() if path.name.startswith(".tmp")]


@pytest.mark.parametrize("stop", [2, 3, 4, 9])
def test_ten_steps_are_some_and_the_rest_across_epoch_edges(tmp_path, small_plan, stop):
    # 1,300 bytes: 21 windows, 3 steps an epoch, of which the last is short.
    text = tmp_path / "text.txt"
    text.write_text("".join(chr(97 + i * i % 26) for i in range(1300)))
    arguments = ["train", small_plan, "--data", text, "--steps", 10, *FLAGS]
    run("ftlm-run", *arguments, "--save-every", stop, "--keep", 0, "--out", tmp_path / "whole")
    assert [line["epoch"] for line in metrics(tmp_path / "whole" / "metrics.jsonl")] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]
    (tmp_path / "rest").mkdir()
    shutil.copytree(tmp_path / "whole" / f"step-{stop}", tmp_path / "rest" / f"step-{stop}")
    shutil.copy(tmp_path / "whole" / "metrics.jsonl", tmp_path / "rest" / "metrics.jsonl")
    run("ftlm-run", *arguments, "--out", tmp_path / "rest", "--resume")
    assert_same_bits(tmp_path / "whole" / "last", tmp_path / "rest" / "last")
    assert told(tmp_path / "whole") == told(tmp_path / "rest")


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "manifest"])
def test_damaged_newest_checkpoint_is_not_taken(tmp_path, training, damage):
    arguments, undisturbed = training
    out = tmp_path / "run"
    shutil.copytree(undisturbed, out, symlinks=True)
    newest = out / "step-14"
    victim = newest / ("manifest.json" if damage == "manifest" else "model.safetensors")
    data = victim.read_bytes()
    if damage == "gone":
        victim.unlink()
    else:
        victim.write_bytes({"cut": data[:-1], "flipped": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "manifest": b"{}"}[damage])
    said = run("ftlm-run", *arguments, "--out", out, "--resume").stderr
    assert str(victim) in said and f"resumed from {out / 'step-12'}" in said
    assert_same_bits(out / "last", undisturbed / "last")
    assert told(out) == told(undisturbed)


def test_best_and_newest_checkpoints_are_kept(training):
    _, out = training
    steps = sorted(int(path.name[5:]) for path in out.glob("step-*"))
    evaluations = metrics(out / "metrics.jsonl", "eval")
    best = min(evaluations, key=lambda line: line["loss"])["step"]
    assert os.readlink(out / "best") == f"step-{best}"
    assert os.readlink(out / "last") == "step-14"
    assert set(steps) == {12, 14, best}


def test_resume_with_another_batch_says_so_and_not_that_the_data_changed(tmp_path, training, text_file):
    arguments, undisturbed = training
    out, plan = tmp_path / "run", tmp_path / "other.ftlm"
    shutil.copytree(undisturbed, out, symlinks=True)
    run("ftlmc", "small", "--batch", 4, "--micro-batch", 4, "--seq-len", 64, "-o", plan)
    said = refused("ftlm-run", "train", plan, *arguments[2:], "--out", out, "--resume", says=["batch was 8 and is 4"])
    assert "data was" not in said
    other = tmp_path / "other.txt"
    other.write_text(text_file.read_text() + "!")
    said = refused("ftlm-run", "train", arguments[1], "--data", other, *arguments[4:], "--out", out, "--resume", says=["data was"])
    assert "batch was" not in said
    # Named as intended, the run goes on.
    run("ftlm-run", "train", arguments[1], "--data", other, *arguments[4:], "--out", out, "--resume", "--override", "data")


def test_write_that_fails_ends_the_run_and_leaves_the_older_checkpoint(tmp_path, training):
    arguments, undisturbed = training
    out = tmp_path / "run"
    (tmp_path / "run").mkdir()
    shutil.copytree(undisturbed / "step-12", out / "step-12")

    def limit():
        # Files beyond 1 MiB cannot be written, as on a full disk.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    said = run("ftlm-run", *arguments, "--out", out, "--resume", code=4, preexec_fn=limit, restore_signals=False).stderr
    assert "model.safetensors.tmp: cannot be written" in said
    assert sorted(path.name for path in out.glob("*step-*")) == ["step-12"]
    run("ftlm-run", *arguments, "--out", out, "--resume")
    assert_same_bits(out / "last", undisturbed / "last")


def test_disk_without_room_is_refused_before_the_run(tmp_path, training):
    arguments, _ = training
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(disk)], capture_output=True).returncode != 0:
        pytest.skip("no small disk can be mounted here")
    try:
        refused("ftlm-run", *arguments, "--out", disk / "run", code=3, says=[str(disk / "run"), "free space", "4 checkpoints"])
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_stop_during_an_evaluation_saves_and_the_evaluation_is_made_up_for(tmp_path, small_plan, text_file):
    valid = tmp_path / "valid.txt"
    valid.write_text(text_file.read_text() * 8)
    arguments = ["train", small_plan, "--data", text_file, "--valid", valid, "--steps", 6, "--eval-every", 3, *FLAGS]
    run("ftlm-run", *arguments, "--out", tmp_path / "whole")
    for step in (3, 6):
        out = tmp_path / f"cut{step}"
        process = start(*arguments, "--out", out)
        expected = step + step // 3 - 1  # the evaluation's line is not there yet
        wait_for(lambda: lines_in(out / "metrics.jsonl") >= expected, process)
        process.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 75, said
        assert time.monotonic() - sent < 20
        assert len(metrics(out / "metrics.jsonl", "eval")) == step // 3 - 1, "the signal came too late"
        assert (out / "last").resolve().name == f"step-{step}"
        run("ftlm-run", *arguments, "--out", out, "--resume")
        assert_same_bits(out / "last", tmp_path / "whole" / "last")
        assert told(out) == told(tmp_path / "whole")


def test_stop_before_the_first_step_saves(tmp_path, training):
    arguments, undisturbed = training
    out = tmp_path / "run"
    process = start(*arguments, "--out", out)
    wait_for(lambda: (out / "settings.json").exists(), process)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 75, said
    run("ftlm-run", *arguments, "--out", out, "--resume")
    assert_same_bits(out / "last", undisturbed / "last")
    assert told(out) == told(undisturbed)


def test_resume_without_a_whole_checkpoint_says_that_it_starts_again(tmp_path, training):
    arguments, undisturbed = training
    out = tmp_path / "run"
    shutil.copytree(undisturbed / "step-12", out / "step-12")
    (out / "step-12" / "state.json").unlink()
    assert "starts at its beginning" in run("ftlm-run", *arguments, "--out", out, "--resume").stderr
    assert_same_bits(out / "last", undisturbed / "last")
