"""The image readers on small files of the published form, whole and damaged, by way of a local server."""

import gzip
import hashlib
import io
import os
import pickle
import tarfile

import numpy as np
import pytest
import torch

from bnnlib import datasets
from tests.bnnlib.datasets.files import HEAD, Malicious, digest, entry


def idx_pages(train=20, test=10, seed=0) -> dict[str, bytes]:
    random, pages = np.random.RandomState(seed), {}
    for part, rows in (("train", train), ("t10k", test)):
        images = random.randint(0, 256, (rows, 28, 28), dtype=np.uint8)
        labels = random.randint(0, 10, rows, dtype=np.uint8)
        header = np.array([0x803, rows, 28, 28], dtype=">u4").tobytes()
        pages[f"{part}-images-idx3-ubyte"] = header + images.tobytes()
        pages[f"{part}-labels-idx1-ubyte"] = np.array([0x801, rows], dtype=">u4").tobytes() + labels.tobytes()
    order = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return {f"{name}-ubyte": pages[f"{name}-ubyte"] for name in order}


def idx_registry(site, pages, check="content_sha256", variants=""):
    text = f'[small]\n{HEAD}reader = "idx"\ntask = "classification"\nfolder = "S/raw"\n'
    text += f'sources = ["{site.url}/one/{{file}}", "{site.url}/two/{{file}}"]\n'
    text += "options = { classes = 10, levels = 255 }\n"
    for name, content in pages.items():
        zipped = gzip.compress(content, mtime=0)
        site.pages[f"/two/{name}.gz"] = zipped
        value = digest(content) if check == "content_sha256" else digest(zipped, "md5")
        text += f'[[small.files]]\npath = "{name}.gz"\nsize = {len(zipped)}\n{check} = "{value}"\n'
    return text + variants


def test_idx_is_downloaded_and_scaled(site, use_registry):
    pages = idx_pages()
    root = use_registry(idx_registry(site, pages))
    assert not datasets.available("small")
    data = datasets.load("small")
    assert datasets.available("small")
    assert data.train_x.shape == (20, 1, 28, 28) and data.test_x.shape == (10, 1, 28, 28)
    assert data.train_x.dtype == torch.float32 and data.train_y.dtype == torch.int64
    raw = np.frombuffer(pages["train-images-idx3-ubyte"], np.uint8, offset=16).reshape(20, 1, 28, 28)
    assert torch.equal((data.train_x * 255).round().to(torch.uint8), torch.from_numpy(raw.copy()))
    assert data.test_y.tolist() == list(pages["t10k-labels-idx1-ubyte"][8:])
    assert data.name == "Small" and data.info["variant"] is False
    site.requests.clear()
    assert datasets.fingerprint("small") == datasets.load("small", download=False).info["fingerprint"]
    assert site.requests == [] and (root / "S" / "raw").is_dir()


@pytest.mark.parametrize("suffix", [".gz", ""])
def test_idx_files_count_by_their_content_whoever_compressed_them_or_nobody(suffix, site, use_registry):
    pages = idx_pages()
    folder = use_registry(idx_registry(site, pages)) / "S" / "raw"
    folder.mkdir(parents=True)
    for name, content in pages.items():
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content, 1, mtime=77) if suffix else content)
    assert datasets.available("small")
    assert len(datasets.load("small", download=False).train_x) == 20


def test_wrong_first_source_truncated_second_gives_the_sources(site, use_registry):
    pages = idx_pages()
    root = use_registry(idx_registry(site, pages))
    site.pages["/one/train-images-idx3-ubyte.gz"] = gzip.compress(b"other")
    site.pages["/two/train-images-idx3-ubyte.gz"] = site.pages["/two/train-images-idx3-ubyte.gz"][:-9]
    with pytest.raises(datasets.DownloadError) as caught:
        datasets.load("small")
    message = str(caught.value)
    assert "the sha256 of its content is" in message and "not a complete gzip file" in message
    assert all(words in message for words in (f"{site.url}/one/", f"{site.url}/two/", "BNNLIB_DATA", "data/README.md"))
    assert not datasets.available("small") and not list((root / "S" / "raw").glob("*.gz"))


def test_known_variant_is_named_and_unknown_content_refused(site, use_registry):
    pages = idx_pages()
    fingerprint = hashlib.sha256("".join(f"{n}:{digest(c)}\n" for n, c in sorted(pages.items())).encode()).hexdigest()
    variants = f'[[small.variants]]\ntitle = "Small, re-split"\nfingerprint = "{fingerprint}"\nnote = "Not official."\n'
    root = use_registry(idx_registry(site, idx_pages(seed=1), check="md5", variants=variants))
    folder = root / "S" / "raw"
    folder.mkdir(parents=True)
    for name, content in pages.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    data = datasets.load("small")
    assert data.name == "Small, re-split" and data.info["variant"] is True and data.info["note"] == "Not official."
    assert data.info["fingerprint"] == fingerprint == datasets.fingerprint("small")
    assert site.requests == []
    for name, content in idx_pages(seed=2).items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    with pytest.raises(
        datasets.IntegrityError, match=r"nor a known variant(.|\n)*md5(.|\n)*python -m bnnlib data small"
    ):
        datasets.load("small")
    # Files that the user put there are never deleted.
    assert len(list(folder.glob("*.gz"))) == 4


@pytest.mark.parametrize("damage", ["truncated", "not gzip", "header", "count"])
def test_damaged_idx_file_is_named(site, use_registry, damage):
    pages = idx_pages()
    root = use_registry(idx_registry(site, pages))
    datasets.fetch("small", progress=False)
    path = root / "S" / "raw" / "train-labels-idx1-ubyte.gz"
    content = pages["train-labels-idx1-ubyte"]
    damaged = {
        "truncated": gzip.compress(content)[:-9],
        "not gzip": b"nothing",
        "header": gzip.compress(b"\x00" * 8 + content[8:]),
        "count": gzip.compress(content[:-1]),
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(datasets.IntegrityError, match="train-labels-idx1-ubyte"):
        datasets.load("small")


def test_folder_that_cannot_be_written(site, use_registry, tmp_path):
    use_registry(idx_registry(site, idx_pages()))
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    with pytest.raises(datasets.DownloadError, match=r"cannot be written.*BNNLIB_DATA"):
        datasets.load("small", root=blocker)


def cifar_batch(rows=10, seed=0) -> tuple[bytes, np.ndarray, list[int]]:
    random = np.random.RandomState(seed)
    images = random.randint(0, 256, (rows, 3072), dtype=np.uint8)
    labels = random.randint(0, 10, rows).tolist()
    return python_2_pickle(images, labels), images, labels


def python_2_pickle(images: np.ndarray, labels: list[int]) -> bytes:
    """Opcodes as in the published files: Python 2, protocol 2, byte strings, and the module names of old NumPy."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    missing = b"J\xff\xff\xff\xff"
    shape = b"K" + bytes([images.shape[0]]) + b"M" + images.shape[1].to_bytes(2, "little") + b"\x86"
    dtype = b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R(K\x03" + text(b"|") + b"NNN" + missing * 2 + b"K\x00tb"
    data = images.tobytes()
    array = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + text(b"b") + b"\x87R"
    array += b"(K\x01" + shape + dtype + b"\x89T" + len(data).to_bytes(4, "little") + data + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + numbers + b"u."


def cifar_registry(site, members: dict[str, bytes], prefix="cifar-10-batches-py/") -> str:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name, data in members.items():
            item = tarfile.TarInfo(prefix + name)
            item.size = len(data)
            tar.addfile(item, io.BytesIO(data))
    files = {"c.tar.gz": stream.getvalue()}
    text = entry(site, "cifar", "classification", files, "classes = 10, levels = 255", "md5") + "[small.members]\n"
    return text + "".join(f'"{name}" = "{digest(data, "md5")}"\n' for name, data in members.items())


def test_cifar_is_downloaded_unpacked_and_read(site, use_registry):
    batches = {name: cifar_batch(seed=k) for k, name in enumerate(("data_batch_1", "data_batch_2", "test_batch"))}
    members = {name: batch[0] for name, batch in batches.items()} | {"batches.meta": pickle.dumps({}, protocol=2)}
    root = use_registry(cifar_registry(site, members))
    data = datasets.load("small")
    assert data.train_x.shape == (20, 3, 32, 32) and data.test_x.shape == (10, 3, 32, 32)
    # Channel by channel, row by row: pixel (1, 2) of the green channel of the second image.
    assert data.train_x[1, 1, 1, 2].item() == pytest.approx(batches["data_batch_1"][1][1, 1024 + 32 + 2] / 255)
    assert data.test_x[3, 2, 0, 5].item() == pytest.approx(batches["test_batch"][1][3, 2048 + 5] / 255)
    assert data.train_y.tolist() == batches["data_batch_1"][2] + batches["data_batch_2"][2]
    assert data.test_y.tolist() == batches["test_batch"][2]
    assert sorted(os.listdir(root / "f")) == [".download", *sorted(members)]
    assert os.listdir(root / "f" / ".download") == ["small.lock"]


def test_cifar_batch_of_this_numpy_has_the_same_content(site, use_registry):
    old, images, labels = cifar_batch()
    new = pickle.dumps({b"data": images, b"labels": labels})
    use_registry(cifar_registry(site, {"data_batch_1": old, "test_batch": new}))
    data = datasets.load("small")
    assert torch.equal(data.train_x, data.test_x) and torch.equal(data.train_y, data.test_y)


def test_archive_cannot_write_outside_its_folder(site, use_registry):
    members = {name: cifar_batch()[0] for name in ("data_batch_1", "test_batch")}
    root = use_registry(cifar_registry(site, members, prefix="../../../escape/"))
    datasets.load("small")
    assert not (root.parent / "escape").exists() and (root / "f" / "test_batch").exists()


def test_archive_without_a_member_is_an_error(site, use_registry):
    text = cifar_registry(site, {"data_batch_1": cifar_batch()[0]}) + '"test_batch" = "0"\n'
    use_registry(text)
    with pytest.raises(datasets.IntegrityError, match="holds no test_batch"):
        datasets.load("small")


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps({b"data": Malicious(), b"labels": [1]}),
        cifar_batch()[0][:-40],
        pickle.dumps({b"data": np.zeros((2, 3071), np.uint8), b"labels": [1, 2]}),
        pickle.dumps({b"labels": [1]}),
        b"",
    ],
    ids=["code", "truncated", "shape", "no data", "empty"],
)
def test_bad_pickle_is_refused_and_runs_nothing(site, use_registry, tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    use_registry(cifar_registry(site, {"data_batch_1": data, "test_batch": cifar_batch()[0]}))
    with pytest.raises(datasets.IntegrityError, match="data_batch_1 is not a CIFAR-10 batch"):
        datasets.load("small")
    assert not (tmp_path / "pickle_ran").exists()
