#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares ftlm's training step with PyTorch's (eager and compiled), both in one run, one after the other.

Makes a virtual environment in build/benchmark/venv with torch and transformers from PyPI. Prints a table with
tokens/s, peak memory, and the ratios to the better of the two PyTorch variants (tokens/s) and to eager (memory).
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", choices=["gpt1", "gpt2"], default="gpt1")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--time", type=int, default=512)
parser.add_argument("--steps", type=int, default=3, help="timed steps of each; the best counts")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--dropout", type=float, default=0.1)
parser.add_argument("--venv", type=pathlib.Path, default=ROOT / "build" / "benchmark" / "venv")
parser.add_argument("--skip-compile", action="store_true", help="leave out torch.compile")
arguments = parser.parse_args()


def torch_python():
    python = arguments.venv / "bin" / "python"
    if not python.exists():
        print(f"making {arguments.venv} with torch and transformers", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", arguments.venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "torch==2.15.0", "transformers", "numpy"], check=True)
    return python


def run_torch(compiled):
    command = [torch_python(), ROOT / "test" / "benchmark" / "pytorch_step.py"]
    for name in ("model", "batch", "time", "steps", "threads", "dropout"):
        command += [f"--{name}", str(getattr(arguments, name))]
    if compiled:
        command.append("--compile")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def run_ftlm():
    work = ROOT / "build" / "benchmark"
    work.mkdir(parents=True, exist_ok=True)
    plan, report, log = work / "plan.ftlm", work / "report.json", work / "metrics.jsonl"
    text = work / "text.txt"
    needed = (arguments.steps + 1) * arguments.batch * arguments.time + 1
    text.write_bytes((ROOT / "README.md").read_bytes() * (needed // 1000 + 1))
    subprocess.run([BIN / "ftlmc", arguments.model, "--batch", str(arguments.batch), "--micro-batch", str(arguments.batch),
                    "--seq-len", str(arguments.time), "--dropout", str(arguments.dropout), "--threads",
                    str(arguments.threads), "-o", plan], check=True)
    subprocess.run(["rm", "-rf", work / "run"], check=True)
    subprocess.run([BIN / "ftlm-run", "train", plan, "--data", text, "--steps", str(arguments.steps + 1), "--threads",
                    str(arguments.threads), "--out", work / "run", "--report", report, "--metrics", log], check=True,
                   stdout=subprocess.DEVNULL)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    step = min(line["step_ms"] for line in lines[1:] if "step_ms" in line) / 1000
    return {"tokens_per_s": arguments.batch * arguments.time / step, "step_s": step,
            "peak_rss_bytes": json.loads(report.read_text())["peak_rss_bytes"]}


results = {"ftlm": run_ftlm(), "PyTorch eager": run_torch(False)}
if not arguments.skip_compile:
    results["PyTorch compiled"] = run_torch(True)
fastest = max(result["tokens_per_s"] for name, result in results.items() if name != "ftlm")
eager = results["PyTorch eager"]["peak_rss_bytes"]
print(f"{arguments.model}, batch {arguments.batch} x {arguments.time}, fp32, dropout {arguments.dropout}, "
      f"{arguments.threads} threads")
for name, result in results.items():
    print(f"{name:18} {result['tokens_per_s']:8.1f} tokens/s {result['step_s']:8.2f} s/step "
          f"{result['peak_rss_bytes'] / 1e9:6.2f} GB")
print(f"ftlm: {results['ftlm']['tokens_per_s'] / fastest:.2f} x the tokens/s of the faster PyTorch, "
      f"{results['ftlm']['peak_rss_bytes'] / eager:.2f} x the memory of eager")
