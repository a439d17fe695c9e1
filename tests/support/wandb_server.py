"""Enough of a wandb server on this machine for runs and `wandb sync` to send to: what arrived can be looked at."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def wandb_command(*words: str, folder: Path | None = None, **environment: str) -> str:
    """What wandb's own tool says; its logs go to `wandb` in the folder it is called from."""
    line = [str(Path(sys.executable).parent / "wandb"), *words]
    # the tool may be told to be silent by a run of this process
    around = {key: value for key, value in os.environ.items() if key != "WANDB_SILENT"} | environment
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=True, env=around, cwd=folder)
    return done.stdout + done.stderr


class Arrived:
    """Everything that clients sent.

    runs: the settings a run was opened with, by its id.
    history: its lines by line number, by run; the later line counts if a number is sent twice.
    files, artifacts: their names.
    """

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = defaultdict(dict)
        self.history: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
        self.files: list[str] = []
        self.artifacts: list[str] = []
        self.url = ""

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        """Take a request in."""
        if path.endswith("/graphql"):
            requested = json.loads(body)
            return {"data": self._data(requested["query"], requested.get("variables") or {})}
        if path.endswith("/file_stream"):
            sent = json.loads(body).get("files", {}).get("wandb-history.jsonl", {"offset": 0, "content": []})
            lines = self.history[path.split("/")[-2]]
            lines.update({sent["offset"] + at: json.loads(text) for at, text in enumerate(sent["content"])})
        return {}

    def _data(self, query: str, inputs: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            # asked again when its configuration changes, with nothing for what stays
            self.runs[inputs["name"]] |= {key: value for key, value in inputs.items() if value is not None}
            project = {"id": "p", "name": inputs.get("project"), "entity": {"id": "e", "name": "me"}}
            bucket = {"id": "x", "name": inputs["name"], "config": "{}", "historyLineCount": 0, "project": project}
            return {"upsertBucket": {"bucket": bucket, "inserted": True}}
        if "viewer" in query:
            viewer = {"id": "v", "username": "me", "entity": "me", "flags": "{}", "teams": {"edges": []}}
            return {"viewer": viewer | {"apiKeys": {"edges": []}}, "serverInfo": None}
        if "createRunFiles" in query:
            self.files += inputs["files"]
            files = [{"name": name, "uploadUrl": f"{self.url}/file"} for name in inputs["files"]]
            return {"createRunFiles": {"runID": "x", "uploadHeaders": [], "files": files}}
        if "createArtifact" in query:
            # as if these very bytes were here already, so that nothing of a table need be sent
            self.artifacts.append(inputs["input"]["artifactCollectionName"])
            there = {"id": "a", "state": "COMMITTED", "artifactSequence": {"id": "s", "latestArtifact": None}}
            return {"createArtifact": {"artifact": there}}
        return {}


@contextmanager
def server() -> Iterator[Arrived]:
    """A server at `Arrived.url`."""
    arrived = Arrived()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            compressed = self.headers.get("Content-Encoding") == "gzip"
            answer = json.dumps(arrived.answer(self.path, gzip.decompress(body) if compressed else body)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_PUT = do_GET = do_POST

        def log_message(self, *words: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    arrived.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    try:
        yield arrived
    finally:
        listening.shutdown()
        listening.server_close()
