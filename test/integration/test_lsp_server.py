# SPDX-License-Identifier: Apache-2.0
"""ftlm-lsp-server knows the dialects: it reports an error in a module at its line."""

import json
import subprocess

from conftest import BIN


def message(body):
    text = json.dumps({"jsonrpc": "2.0", **body})
    return f"Content-Length: {len(text)}\r\n\r\n{text}".encode()


def replies(text):
    """The bodies of a sequence of messages."""
    while text.strip():
        head, text = text.split(b"\r\n\r\n", 1)
        length = int(head.split(b":")[1])
        yield json.loads(text[:length])
        text = text[length:]


def test_reports_an_unknown_op_at_its_line():
    module = 'lm.param @w : tensor<4xf32> init #lm.init<constant, 1.0>\nlm.nonsense'
    document = {"uri": "file:///model.mlir", "languageId": "mlir", "version": 1, "text": module}
    session = b"".join(map(message, [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
        {"id": 2, "method": "shutdown"}, {"method": "exit"}]))
    done = subprocess.run([str(BIN / "ftlm-lsp-server")], input=session, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    reports = [reply["params"] for reply in replies(done.stdout) if reply.get("method") == "textDocument/publishDiagnostics"]
    assert len(reports) == 1 and reports[0]["uri"] == "file:///model.mlir"
    (problem,) = reports[0]["diagnostics"]
    assert "'lm.nonsense' is unknown" in problem["message"]
    assert problem["range"]["start"]["line"] == 1
