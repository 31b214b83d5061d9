"""A JupyterLab on this machine for the tests, and its pages in a browser."""

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from tests.patience import wait_for

# Every cell stays in the page, also far below the part in view: otherwise an output exists only while it is looked at.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}


@dataclass(frozen=True)
class Lab:
    """A running server: its address, its token, and the folder that it serves (Lab saves there what it runs)."""

    host: str
    token: str
    folder: Path

    def ask(self, path: str):
        """What the server's interface answers, None while it does not."""
        try:
            with urlopen(f"{self.host}/api/{path}?token={self.token}") as answer:
                return json.load(answer)
        except OSError:
            return None

    def open(self, notebook: Path, context, name: str | None = None):
        """A page with a copy of the notebook, its kernel connected; `page.faults` fills as it works."""
        name = name or notebook.name
        (self.folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(notebook, self.folder / name)
        page = context.new_page()
        page.faults = []
        own = (self.host, self.host.replace("http", "ws"), "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(own) else page.faults.append(f"request to {r.url}"))
        page.on("pageerror", lambda error: page.faults.append(f"script error: {error}"))
        page.goto(f"{self.host}/lab/tree/{name}?token={self.token}&reset")
        # A command sent before the kernel is connected would be lost, though the page looks ready.
        while not any(
            s["path"] == name and s["kernel"]["execution_state"] == "idle" and s["kernel"]["connections"]
            for s in self.ask("sessions") or []
        ):
            page.wait_for_timeout(300)
        return page


def run_all(page) -> None:
    """Give the command Run All; what it leads to is for the test to wait for."""
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")


@contextlib.contextmanager
def serving(home: Path, root: Path, *options: str) -> Iterator[Lab]:
    """A server over the empty folder `home/work`, with nothing of the user's own configuration."""
    (home / "work").mkdir(parents=True)
    for name, content in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "BNN_STATIC"}
    environment |= {
        "PYTHONPATH": str(root),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    lab = Lab(f"http://127.0.0.1:{port}", secrets.token_hex(16), home / "work")
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={lab.token}", f"--ServerApp.root_dir={lab.folder}"]
    command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.expose_app_in_browser=True", *options]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: server.poll() is not None or lab.ask("status"))
            assert server.poll() is None, f"JupyterLab did not start:\n{(home / 'log').read_text()}"
            yield lab
        finally:
            server.terminate()  # and its kernels with it
            server.wait()
