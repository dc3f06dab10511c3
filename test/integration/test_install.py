# SPDX-License-Identifier: Apache-2.0
"""`cmake --install` gives programs that work from any folder, with the models beside them."""

import os
import subprocess

import pytest

from conftest import BIN, metrics

BUILD = BIN.parent


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    if not (BUILD / "CMakeCache.txt").exists():
        pytest.skip(f"{BUILD} is no build folder")
    folder = tmp_path_factory.mktemp("install") / "a prefix"
    subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(folder)], check=True, capture_output=True, text=True)
    return folder


def installed(prefix, program, *arguments, cwd):
    """Runs an installed program as a user does who has only the prefix."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("FTLM_", "LD_"))}
    done = subprocess.run([str(prefix / "bin" / program), *map(str, arguments)], cwd=cwd, env=environment, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    assert done.returncode == 0, f"{program} {arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def test_installed_programs_compile_and_train(prefix, tmp_path, text_file):
    installed(prefix, "ftlmc", "small", "--batch", 4, "--micro-batch", 4, "--seq-len", 32, "-o", "p.ftlm", cwd=tmp_path)
    installed(prefix, "ftlm-run", "train", "p.ftlm", "--data", text_file, "--steps", 2, "--out", "run", cwd=tmp_path)
    assert [line["step"] for line in metrics(tmp_path / "run" / "metrics.jsonl")] == [1, 2]


def test_every_description_is_installed(prefix):
    models = sorted(path.name for path in (prefix / "share" / "ftlm" / "models").iterdir())
    assert models == sorted(path.name for path in (BIN.parents[1] / "models").iterdir())
    assert {"gpt1.toml", "gpt2.toml", "small.toml"} <= set(models)


def test_installed_optimizer_driver_reads_what_the_compiler_prints(prefix, tmp_path):
    (tmp_path / "m.mlir").write_text(installed(prefix, "ftlmc", "tiny", "--emit", "lm", cwd=tmp_path).stdout)
    assert "lm.program objective @loss" in installed(prefix, "ftlm-opt", "m.mlir", cwd=tmp_path).stdout
