"""A wheel holds the library and nothing of the book, and works where there is no checkout."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # builds a wheel, and starts PyTorch afresh for each thing that is tried with it

# Before the code that is tried: only the folder with the wheel's content, then what pip installed. Under -I -S Python
# reads neither PYTHONPATH nor .pth files, so that the checkout, which is installed as editable, is out of sight.
ALONE = """
import importlib.util, sys
sys.path[:0] = [{target!r}]
sys.path += [{installed!r}]
assert importlib.util.find_spec("bnnlib").origin.startswith({target!r})
assert not any(importlib.util.find_spec(name) for name in ("book", "chapters", "tests"))
"""
EVERY_MODULE = """
import importlib, pkgutil
sys.modules |= dict.fromkeys(["scipy", "sklearn", "matplotlib", "joblib", "tqdm", "dask", "lightning_fabric", "onnx"])
import bnnlib
names = [one.name for one in pkgutil.walk_packages(bnnlib.__path__, "bnnlib.") if one.name != "bnnlib.__main__"]
for name in ("bnnlib.estimators", "bnnlib._native.triton_kernels"):  # what is made for an extra, and for a GPU
    names.remove(name)
for name in names:
    importlib.import_module(name)
try:
    import bnnlib.estimators
except ImportError as error:
    assert "pip install 'bnnlib[estimators]'" in str(error)
else:
    raise AssertionError("bnnlib.estimators was imported without scikit-learn")
print(len(names))
"""
LIBRARY = """
import torch
from bnnlib import datasets
from bnnlib.nn import elbo_loss, predict, to_bayesian
from bnnlib.sampling import SGHMC

assert {"mnist", "diabetes"} <= set(datasets.names())
data = datasets.load("diabetes")
x, y = data.train_x.float(), data.train_y.float().reshape(-1, 1)
assert x.shape[1:] == (10,)

torch.manual_seed(0)
model = to_bayesian(torch.nn.Linear(10, 1), "gaussian")
elbo_loss(torch.nn.functional.mse_loss(model(x), y), model, num_data=len(x)).backward()
assert predict(model, x, num_samples=3).shape == (3, len(x), 1)

network = torch.nn.Linear(10, 1)
sampler = SGHMC(network.parameters(), lr=1e-5, temperature=1.0)
before = network.weight.clone()
torch.nn.functional.mse_loss(network(x), y).backward()
sampler.step()
assert not torch.equal(before, network.weight) and network.weight.isfinite().all()
print("works")

import runpy
for arguments in (["data"], ["run", "svbnn-mnist"]):
    sys.argv = ["bnnlib", *arguments]
    try:
        runpy.run_module("bnnlib", run_name="__main__")
    except SystemExit as end:
        print("ended with", end.code or 0)
"""


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory) -> Path:
    """A wheel built without the network from a copy of the tree, which building would litter."""
    home = tmp_path_factory.mktemp("wheel")
    tree = home / "tree"
    for name in ("bnnlib", "book", "chapters", "benchmarks"):
        shutil.copytree(root / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copyfile(root / name, tree / name)
    pip("wheel", "--no-build-isolation", "--wheel-dir", str(home), str(tree))
    (built,) = home.glob("*.whl")
    return built


def pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *arguments, "--no-deps", "--no-index"]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """Runs code against the installed wheel, far from the checkout."""
    home = tmp_path_factory.mktemp("alone")
    pip("install", "--target", str(home / "target"), str(wheel))
    places = ALONE.format(target=str(home / "target"), installed=sysconfig.get_paths()["purelib"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("BNN", "PYTHON"))}
    environment["XDG_CACHE_HOME"] = str(home / "cache")

    def run(code: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-I", "-S", "-c", places + code]
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)

    return run


def test_the_wheel_holds_the_library_and_nothing_else(wheel, root):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    library = {
        path.relative_to(root).as_posix()
        for path in (root / "bnnlib").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert held == library
    assert {"bnnlib/__init__.py", "bnnlib/datasets/registry.toml"} <= held


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_metadata_says_who_and_what(wheel, root):
    about, citation = metadata(wheel), (root / "CITATION.cff").read_text()
    assert f'name: "{about["Author"]}"' in citation and f"version: {about['Version']}" in citation
    for keyword in re.findall(r"^  - (\S.*)$", citation.split("keywords:")[1].split("references:")[0], re.MULTILINE):
        assert keyword in about["Keywords"].split(",")
    assert "Typing :: Typed" in about.get_all("Classifier")


def test_the_long_description_stands_alone_and_its_code_runs(wheel, alone):
    text = metadata(wheel).get_payload()
    assert re.findall(r"\]\((?!https?://)", text) == [] and "ADDRESS" not in text  # nothing here is beside it
    assert f"pip install {wheel.name}" in text
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    code = "".join(block for kind, block in blocks if kind == "python")
    (printed,) = (block for kind, block in blocks if kind == "text")
    check = "assert run.stopped and (probabilities.argmax(dim=-1) == test[1]).double().mean() > 0.8\n"
    done = alone(code + check)
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_every_module_can_be_imported_with_pytorch_and_numpy_alone(alone):
    done = alone(EVERY_MODULE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 80


def test_layers_samplers_data_and_the_command_line_work_from_the_wheel(alone):
    done = alone(LIBRARY)
    ended = [line for line in done.stdout.splitlines() if line == "works" or line.startswith("ended")]
    assert ended == ["works", "ended with 0", "ended with 2"], done.stderr
    assert "mnist " in done.stdout and "diabetes" in done.stdout
    assert "Experiments run from a checkout of the repository" in done.stderr
