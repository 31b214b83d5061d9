"""Explorers in a real JupyterLab: after Run All, moving a slider calls the live function and draws a new picture."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

FIXTURE = Path(__file__).resolve().parent / "fixtures/chapters/01_fixture.ipynb"
# Every cell stays in the page, also far below the part in view: otherwise an output exists only while it is looked at.
SETTINGS = {"@jupyterlab/notebook-extension/tracker": {"windowingMode": "none"}}


@pytest.fixture(scope="module")
def lab(tmp_path_factory, root):
    """A JupyterLab on this machine over a copy of the notebooks (Lab saves what it runs)."""
    home = tmp_path_factory.mktemp("lab")
    work = home / "work" / "chapters"
    work.mkdir(parents=True)
    shutil.copyfile(FIXTURE, work / FIXTURE.name)
    for name, content in SETTINGS.items():
        path = home / "settings" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(content))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    environment = {name: value for name, value in os.environ.items() if name != "BNN_STATIC"}
    environment |= {
        "PYTHONPATH": str(root),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
    ]
    command += [
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={work.parent}",
        "--ServerApp.port_retries=0",
    ]
    command += ["--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    command += ["--LabApp.expose_app_in_browser=True"]
    with (home / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            while not get(f"http://127.0.0.1:{port}/api/status?token={token}"):
                assert server.poll() is None, f"JupyterLab did not start:\n{(home / 'log').read_text()}"
                time.sleep(0.3)
            yield f"http://127.0.0.1:{port}", token
        finally:
            server.terminate()  # and its kernels with it
            server.wait()


def get(address: str):
    try:
        with urlopen(address) as answer:
            return json.load(answer)
    except OSError:
        return None


def test_a_live_slider_draws_a_new_picture(lab, browser):
    host, token = lab
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(0)
    page = context.new_page()
    outside, errors = [], []
    page.on(
        "request",
        lambda r: (
            outside.append(r.url)
            if not r.url.startswith((host, host.replace("http", "ws"), "data:", "blob:"))
            else None
        ),
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{host}/lab/tree/chapters/{FIXTURE.name}?token={token}")
    # "Run All" sent before the kernel is connected would be lost, though the page looks ready.
    idle = f"{host}/api/sessions?token={token}"
    while not any(s["kernel"]["execution_state"] == "idle" and s["kernel"]["connections"] for s in get(idle) or []):
        page.wait_for_timeout(300)
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")

    picture = page.locator(".jp-OutputArea .widget-html img[alt^='The curve x to the power']")
    picture.wait_for()
    assert picture.get_attribute("alt") == "The curve x to the power 2 between minus one and one."
    before = picture.get_attribute("src")
    handle = page.locator(".jp-OutputArea .noUi-handle")
    handle.focus()
    page.keyboard.press("ArrowRight")
    while picture.get_attribute("src") == before:
        page.wait_for_timeout(300)
    assert picture.get_attribute("alt") == "The curve x to the power 3 between minus one and one."
    assert page.locator(".jp-OutputArea .widget-readout").inner_text() == "3"
    assert outside == []
    assert errors == []
    context.close()
