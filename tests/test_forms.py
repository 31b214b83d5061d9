"""Forms by which a mistake can be reported: they ask for what is needed to find and judge it."""

import re

import yaml


def test_a_mistake_is_reported_with_its_page_build_sentence_and_what_is_right(root):
    forms = {path.stem: yaml.safe_load(path.read_text()) for path in (root / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    asked = {part["id"] for part in forms["mistake"]["body"] if part["validations"]["required"]}
    assert {"page", "build", "sentence", "right"} <= asked
    (versions,) = (part for part in forms["fault"]["body"] if part["id"] == "versions")
    code = versions["attributes"]["description"].split('"')[1]
    exec(compile(code, "fault.yml", "exec"), {})  # the command that the form asks to run


def test_what_contributors_are_told_to_read_is_there(root):
    text = (root / "CONTRIBUTING.md").read_text()
    heads = {line[3:].lower().replace(" ", "-") for line in text.split("\n") if line.startswith("## ")}
    table = text.split("## What you may want to mend")[1].split("\n## ")[0]
    for kind in ("a sentence", "a published number", "a number of ours", "a method", "a rival"):
        assert f"| {kind}" in table
    assert {link.split(")")[0] for link in table.split("(#")[1:]} <= heads


def test_what_contributors_are_told_is_there_or_free(root):
    text = (root / "CONTRIBUTING.md").read_text()
    named = re.findall(r"`((?!_build/)[a-z_]+(?:/[a-z_0-9]+)+\.(?:py|toml|md))`", text)
    assert len(named) > 5 and all((root / path).exists() for path in named)
    name, number = re.search(r"new-chapter (\w+) --number (\d+)", text).groups()
    assert not (root / "chapters" / name).exists() and not list((root / "chapters").glob(f"{number}_*"))
