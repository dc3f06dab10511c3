# SPDX-License-Identifier: Apache-2.0
"""Times training steps of transformers' GPT models in PyTorch on the CPU; prints one JSON line.

Run by compare_pytorch.py in a virtual environment of its own.
"""

import argparse
import json
import resource
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", choices=["gpt1", "gpt2"], required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--time", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--dropout", type=float, required=True)
parser.add_argument("--compile", action="store_true")
arguments = parser.parse_args()

torch.set_num_threads(arguments.threads)
torch.manual_seed(1)
rate = dict(resid_pdrop=arguments.dropout, embd_pdrop=arguments.dropout, attn_pdrop=arguments.dropout)
if arguments.model == "gpt1":
    model = OpenAIGPTLMHeadModel(OpenAIGPTConfig(**rate))
else:
    model = GPT2LMHeadModel(GPT2Config(**rate))
model.train()
vocabulary = model.config.vocab_size
optimizer = torch.optim.AdamW(model.parameters(), lr=6.25e-5, weight_decay=0.01, fused=True)
run = torch.compile(model) if arguments.compile else model

seconds = []
for _ in range(arguments.steps + 1):
    tokens = torch.randint(0, vocabulary, (arguments.batch, arguments.time))
    start = time.perf_counter()
    loss = run(tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    seconds.append(time.perf_counter() - start)

best = min(seconds[1:])
print(json.dumps({
    "tokens_per_s": arguments.batch * arguments.time / best,
    "step_s": best,
    "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
