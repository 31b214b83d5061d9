"""Memory and time of 50 draws of ResNet20, kept in memory and in a folder.

`python -m benchmarks.draws [--json] [--draws 50] [--batch 256]`

Memory is what PyTorch holds at the worst moment beyond that at the beginning: while the draws are kept, and while they
predict a batch, there less what one pass of the network takes without a store. A draw that is read from its file counts
as one while it is mapped. Times are of one draw; the folder's have the way to the disk in them.
"""

import tempfile

import torch

from benchmarks import command
from benchmarks.timing import seconds
from bnnlib.sampling import SampleStore
from chapters.shared.memory import peak_bytes
from chapters.shared.networks import resnet20

PLACES = ("memory", "folder")


def measure(place: str, draws: int, batch: int) -> dict:
    """Memory and milliseconds of keeping and of using the draws."""
    torch.manual_seed(0)
    model, x = resnet20(), torch.randn(batch, 3, 32, 32)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():

        def store() -> SampleStore:
            place_of = tempfile.mkdtemp(dir=folder) if place == "folder" else None
            return SampleStore(draws, folder=place_of)

        def keep(store: SampleStore) -> None:
            for _ in range(draws):
                store.offer(model)

        def use(store: SampleStore) -> None:
            store.predict(model, x, batch_size=batch)

        first, second = store(), store()
        passes = peak_bytes(lambda: model.eval()(x))
        kept, used = peak_bytes(lambda: keep(first)), peak_bytes(lambda: use(first)) - passes
        size = sum(value.numel() * value.element_size() for value in model.state_dict().values())
        row = {"place": place, "draws": draws, "batch": batch, "draw_mb": size / 1e6}
        row |= {"kept_mb": kept / 1e6, "used_mb": used / 1e6}
        times = {"offer_ms": lambda: keep(second), "predict_ms": lambda: use(second)}
        return row | {name: 1e3 * seconds(work, x.device) / draws for name, work in times.items()}


def main(arguments: list[str] | None = None) -> list[dict]:
    parser = command.parser("draws", __doc__)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--batch", type=int, default=256)
    options = parser.parse_args(arguments)
    say = command.progress(options)
    rows = []
    for place in PLACES:
        row = measure(place, options.draws, options.batch)
        rows.append({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
        print(f"{place}: {row['kept_mb']:.1f} MB while kept, {row['used_mb']:.1f} while used", file=say)
    return command.done(rows, options)


if __name__ == "__main__":
    main()
