"""A local HTTP server that misbehaves on request, and a registry that points to it."""

import os
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bnnlib.datasets import download, registry


@dataclass
class Site:
    """Pages by path. `break_after[path]` lists, request by request, after how many bytes the connection drops."""

    url: str = ""
    pages: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, list[int]] = field(default_factory=dict)
    break_after: dict[str, list[int]] = field(default_factory=dict)
    ignore_range: bool = False
    silent: bool = False
    closing: threading.Event = field(default_factory=threading.Event)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    busy: threading.Lock = field(default_factory=threading.Lock)


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self):
        site, path = self.site, self.path
        with site.busy:
            span = self.headers.get("Range")
            site.requests.append((path, span))
            status = site.status[path].pop(0) if site.status.get(path) else 200
            stop = site.break_after[path].pop(0) if site.break_after.get(path) else None
        if path not in site.pages or status != 200:
            self.send_error(404 if path not in site.pages else status)
            return
        body, start = site.pages[path], 0
        if span and not site.ignore_range:
            start = int(re.fullmatch(r"bytes=(\d+)-", span)[1])
            if start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if site.silent:
            site.closing.wait()
        self.wfile.write(body[start:][:stop])

    def log_message(self, *args):
        pass


@pytest.fixture
def site(monkeypatch):
    """A server on this machine; proxies are off and pauses short, so that the tests take no time."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "POLICY", download.Policy(attempts=3, backoff=0.01, timeout=600.0))
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield site
    site.closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def use_registry(tmp_path, monkeypatch):
    """Replace the registry by the given text, and the data folder by an empty one, whose path is returned."""

    def use(text: str) -> Path:
        path = tmp_path / "registry.toml"
        path.write_text(text, encoding="utf-8")
        registry._read.cache_clear()
        monkeypatch.setattr(registry, "REGISTRY", path)
        root = tmp_path / "sets"
        monkeypatch.setenv("BNNLIB_DATA", str(root))
        return root

    yield use
    registry._read.cache_clear()


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The folder in BNNLIB_DATA, for tests on the real files."""
    root = os.environ.get("BNNLIB_DATA")
    if not root:
        pytest.skip("BNNLIB_DATA is not set: the real data sets are not tested")
    return Path(root)
