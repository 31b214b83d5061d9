"""The tables of costs say what the benchmarks have stored; test_what_it_took.py has that pages ask for nothing else."""

from benchmarks import costs

ABOUT = {"device": "cpu (some)", "threads": 1, "torch": "2.13", "date": "2026-01-01"}
ABOUT |= {"command": "python -m benchmarks.x"}


def row(library="bnnlib", layer="gaussian", batch=128, **more):
    return {"library": library, "layer": layer, "batch": batch, "ratio": 2.0, "ms": 10.0, "base_ms": 5.0} | more


def told(name, measured):
    return costs.tables(measured)[name]()


def found():
    times = [
        row(quartiles=[1.9, 2.25]),
        row(batch=1024, ratio=1.2),
        row("torchbnn", ratio=2.5),
        row(layer="sghmc", ratio=1.4, ms=7.0),
        row(layer="sghmc-sa", ratio=1.254, device="cpu"),
    ]
    moved = [
        row("torch", "none", bytes=25e6),
        row(bytes=100e6),
        row("torchbnn", bytes=165e6),
        row(layer="sghmc", bytes=42e6),
    ]
    draws = [
        {
            "library": "bnnlib",
            "layer": "gaussian",
            "way": way,
            "network": "13-50-1",
            "batch": 1,
            "samples": 100,
            "seconds": seconds,
        }
        for way, seconds in (("calls", 0.05), ("at once", 0.0071))
    ]
    return {
        "step_time_cpu": {"about": ABOUT, "rows": times},
        "step_traffic": {"about": ABOUT, "bandwidth": 5e9, "rows": moved},
        "step_prediction": {"about": ABOUT, "rows": draws},
    }


def test_tables_hold_the_stored_numbers():
    text = told("step_time_cpu", found())
    # 75 MB at 5 GB/s are 15 ms, beside the deterministic 5
    assert "| Gaussian | – | 2.00 (1.90 to 2.25) | 1.20 | 1.25; 1.05 | torchbnn 2.50 | 100 | 4.00 |" in text
    assert "| SGHMC | – | 1.40 | – | 1.05; – | – | 42 | 1.68 |" in text and "horseshoe" not in text
    assert "learned prior | – | **1.25** |" in text  # as its goal is printed
    draws = told("prediction", found())
    assert "| Milliseconds for 100 draws | 13-50-1, 1 row |" in draws and "| bnnlib, gaussian, at once | 7 |" in draws
    assert "*cpu (some), 1 thread, torch 2.13, 2026-01-01: `python -m benchmarks.x`.*" in text
    assert "no result for step time h100" in told("step_time_h100", found())


def test_the_ratios_that_meet_a_goal_are_of_samplers_as_the_page_says(root):
    bold = [line for line in told("step_time_cpu", costs.stored(root)).splitlines() if "**" in line]
    assert bold and all(any(f"| {costs.KINDS[one]} |" in line for one in costs.SAMPLERS) for line in bold)
    assert "no layer's does" in (root / "book" / "step_cost.md").read_text(encoding="utf-8")


def test_sources_of_noise_stand_beside_steps_without_its_price():
    rows = [
        {"way": "PyTorch, normal", "ns": 2.3, "ns_quartiles": [2.2, 2.5]},
        {"layer": "gaussian", "ratio": 2.0, "ratio_quartiles": [1.9, 2.1], "free": 1.7, "free_quartiles": [1.6, 1.75]},
    ]
    rows[1] |= {"keyed": 1.5, "keyed_quartiles": [1.4, 1.6]}
    text = told("noise", {"step_noise": {"about": ABOUT, "rows": rows}})
    assert "| PyTorch, normal | 2.30 (2.20 to 2.50) |" in text
    assert "| Gaussian | 2.00 (1.90 to 2.10) | 1.70 (1.60 to 1.75) | 1.50 (1.40 to 1.60) |" in text


def test_passes_on_a_gpu_are_told_at_the_largest_size():
    rows = [{"way": "copy", "count": 10, "ns": 1.0, "gb_s": 8.0, "of_copy": 1.0}]
    rows.append({"way": "draw, Gaussian", "count": 9000, "ns": 0.0056, "gb_s": 2143.4, "of_copy": 0.732})
    text = told("noise_h100", {"step_noise_h100": {"about": ABOUT, "rows": rows}})
    assert "| draw, Gaussian | 0.0056 | 2,143 | 73 |" in text and "Pass over 9,000 numbers" in text
    assert "copy |" not in text


def test_memory_is_told_in_bytes_a_weight():
    rows = [{"library": "torch", "layer": "deterministic", "peak": 21.2, "standing": 16.0}]
    rows.append({"library": "bnnlib", "layer": "gaussian", "peak": 40.4, "standing": 32.0})
    text = told("memory", {"step_memory": {"about": ABOUT, "rows": rows}})
    assert "| deterministic | 21 | 16 |" in text and "| bnnlib, Gaussian | 40 | 32 |" in text


def test_estimators_stand_by_set_with_their_lead_over_rivals():
    own = {"method": "spike_slab", "splits": 2, "rows": 1000, "inputs": 200, "error": 107.26, "error_se": 1.04}
    own |= {"coverage": 95.4, "coverage_1": 96.4, "coverage_2": 91.1, "coverage_3": 95.0}
    own |= {"selected": 5.0, "cpu_s": 20.04}
    labels = {"method": "spike_slab", "splits": 1, "rows": 30, "inputs": 4}
    labels |= {"error": 3.514, "selected": 12.0, "cpu_s": 3.0}
    rows = [
        {"set": "five_of_200", **own},
        {"set": "five_of_200", "method": "lasso", "nll_behind": 0.251, "nll_behind_se": 0.02},
        {"set": "five_of_200", "method": "Laplace", "note": "not installed"},
        {"set": "iris", **labels},
        {"set": "iris", "method": "random forest", "nll_behind": -0.1},
    ]
    text = told("estimators", {"estimators": {"about": ABOUT, "rows": rows}})
    assert "error | nats ahead of the lasso | of random forest | coverage" in text
    assert "| five of 200 (1,000 × 200) | 107.3 ± 1.0 | 0.25 ± 0.02 | – | 91 to 96 % | 5.0 | 20.0 | 2 |" in text
    assert "| iris (30 × 4) | 3.51 | – | −0.10 | – | 12.0 | 3.0 | 1 |" in text


def test_selections_stand_by_method():
    null = {"set": "null_200", "method": "spike_slab", "selected": 0.25, "selected_se": 0.1, "moved": 0.031}
    copied = {"set": "copied_200", "method": "spike_slab", "power": 100.0, "false": 12.5, "moved": 0.5}
    rows = [null, copied, null | {"method": "lasso", "selected": 3.0}]
    del rows[2]["moved"]
    text = told("selections", {"selections": {"about": ABOUT, "rows": rows}})
    assert "| spike slab | 0.2 ± 0.1 | – | 100 %, 12 % | – | – | 0.50 |" in text
    assert "| lasso | 3.0 ± 0.1 | – | – | – | – | – |" in text


def test_the_picture_is_the_same_text_for_the_same_numbers():
    first, again = costs.picture(found()), costs.picture(found())
    assert first == again and first.lstrip().startswith("<?xml") and "<svg" in first
    other = found()
    other["step_time_cpu"]["rows"][0]["ms"] = 11.0
    assert costs.picture(other) != first


def test_stacks_are_full_where_more_networks_gain_little():
    times = {1: 12.34, 10: 2.0, 30: 1.0, 100: 0.95}
    rows = [{"width": 7, "replicates": n, "weights": 1_527, "ms": ms} for n, ms in times.items()]
    workers = [{"one_s": 120.4, "two_s": 64.0, "efficiency": 0.941}]
    measured = {"step_stacks": {"about": ABOUT, "rows": rows}, "step_workers": {"about": ABOUT, "rows": workers}}
    assert "| 7 | 1,527 | 12.3 | 2.00 | **1.00** | 0.95 |" in told("stacks", measured)
    assert "| 120 | 64 | 0.94 |" in told("workers", measured)


def test_draws_are_counted_in_draws():
    row = {"place": "folder", "draws": 50, "draw_mb": 2.0, "kept_mb": 0.1, "used_mb": 2.2}
    rows = [row | {"offer_ms": 8.6, "predict_ms": 281.4}]
    text = told("draws", {"step_draws": {"about": ABOUT, "rows": rows}})
    assert "| 50 in a folder | 0.1 | 1.1 | 9 | 281 |" in text


def test_convolutions_on_a_processor_and_noise_on_units():
    rows = [
        row(layer="lenet5-gaussian", ratio=1.5),
        row(layer="resnet20-gaussian", batch=1024, ratio=1.01),
        row(layer="sbp-lenet5", ratio=1.3, quartiles=[1.2, 1.4]),
    ]
    text = told("convolutions", {"step_convolutions": {"about": ABOUT, "rows": rows}})
    assert "| Layer, ratio | LeNet-5, 128 rows | ResNet20, 1,024 rows |" in text
    assert "| Gaussian | 1.50 | 1.01 |" in text and "| SBP, LeNet-5 | 1.30 (1.20 to 1.40) | – |" in text


def test_times_to_an_answer_name_their_tasks():
    rows = [{"layer": "gaussian", "task": "simulation-2", "target": 0.25, "seconds": 0.61}]
    rows[0] |= {"arrived": 1, "runs": 1}
    text = told("time_to_answer", {"time_to_answer": {"about": ABOUT, "rows": rows}})
    assert "| Network | simulation II, loss 0.25 |" in text and "| Gaussian | 0.6 s |" in text
