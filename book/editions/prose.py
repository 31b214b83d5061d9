"""What the notebook lint reads out of Markdown: prose without markup, sentences, words, typed results."""

import re
from collections.abc import Iterator

FENCE = re.compile(r"^\s*(`{3,}|:{3,})(.*)$")
# Directives whose body is prose; the body of any other fence (math, code, tables, bibliography) is not.
PROSE_DIRECTIVES = re.compile(
    r"^\{(?:prf:\w+|exercise(?:-start)?|solution(?:-start)?|hint|note|tip|warning|important|admonition|dropdown|margin)\}"
)
# A full stop after one of these does not end a sentence.
ABBREVIATIONS = (
    r"(?:\be\.g|\bi\.e|\bcf|\bvs|\bet al|\bresp|\bapprox|\bFig|\bEq|\bSec|\bDr|\bProf|\bSt|\bno|\b[A-Z]|^\s*\d+)\.$"
)
# "**Lemma 4.1.** Let ..." and "*Proof.* ..." are headings that run into their first sentence.
RUN_IN = re.compile(r"^\s*(?:[-*+] +|\d+\. +)?(?:\*\*[^*]+\*\*|\*[^*]+\*|_[^_]+_)$")
SENTENCE_END = re.compile(r"(?<=[.?!])([\"'”)*_]*) +(?=[\"'“(*_$`{\[]*(?:[A-Z]|\$|\{\w|\[|`|\(i))")
SPAN = re.compile(r"\{[\w:.-]+\}`[^`]*`|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|!?\[[^\]]*\]\([^)]*\)")

# "published": a number quoted from a paper. "definition": a convention, such as a 95 % band.
EXCUSED = re.compile(r"<!-- (?:published|definition) -->")
MEASURED = re.compile(
    r"\b(?:accura\w+|errors?|rmse|mse|nll|ece|coverage|sparsity|sparse|fpr|fnr|active|speed-?up|faster|slower|loss|"
    r"likelihood|replicates|significant\w*)\b",
    re.IGNORECASE,
)
NUMBER = re.compile(
    r"(?<![\w.-])\d+(?:[.,]\d+)?\s*(?:%|percent\b|\\%|times\b|±)"
    r"|(?<![\w.-])\d+\.\d+(?![\w.-]*[\w])"
    r"|±\s*\d"
)
# "Conditions 4.1, 4.2 and 4.4" are names, not results.
NAMED = re.compile(
    r"\b(?:Sections?|Theorems?|Lemmas?|Propositions?|Conditions?|Tables?|Figures?|Equations?|Python|PyTorch)"
    r"\s+\d[\d.]*(?:(?:,? and|,? or|,|-|–)\s*\d[\d.]*)*",
    re.IGNORECASE,
)


def prose_lines(source: str) -> Iterator[tuple[int, str]]:
    """(line number from 0, line) of each line of prose: no fences, their options, tables, headings or comments."""
    open_fences: list[tuple[str, bool]] = []
    options = False
    for number, line in enumerate(source.split("\n")):
        fence = FENCE.match(line)
        if fence and open_fences and not fence[2].strip() and fence[1] == open_fences[-1][0]:
            open_fences.pop()
            continue
        if fence:
            open_fences.append((fence[1], bool(PROSE_DIRECTIVES.match(fence[2].strip()))))
            options = True
            continue
        if options and re.match(r"^\s*:[\w-]+:", line):
            continue
        options = False
        if not all(prose for _, prose in open_fences):
            continue
        if line.strip() and not re.match(r"^\s*(?:#{1,6} |\||%|\(\S+\)=|<!--.*-->\s*$|\$\$)", line):
            yield number, line


def without_spans(line: str) -> str:
    """The line with code, roles, formulas and link targets blanked at equal length."""
    return SPAN.sub(lambda span: "x" * len(span[0]), line)


def split_line(line: str) -> list[str]:
    """The sentences of a line; what follows the first is indented so that a list item stays one item."""
    bare, cuts = without_spans(line), []
    marker = re.match(r"^(\s*)((?:[-*+]|\d+\.) +)?", line)
    indent = marker[1] + " " * len(marker[2] or "")
    for end in SENTENCE_END.finditer(_keep_starts(line, bare)):
        before, after = bare[: end.end(1)], line[end.end() :]
        abbreviated = re.search(ABBREVIATIONS, bare[: end.start()])
        if not abbreviated and not RUN_IN.match(before) and not after.startswith(r"$\square$"):
            cuts.append((end.end(1), end.end()))
    parts, start = [], 0
    for stop, following in cuts:
        parts.append(line[start:stop])
        start = following
    parts.append(line[start:])
    return [part if i == 0 else indent + part for i, part in enumerate(parts)]


def _keep_starts(line: str, bare: str) -> str:
    """Blanked spans keep their first character, by which a sentence that starts with a formula is seen."""
    return "".join(
        a if a != b and (i == 0 or bare[i - 1] == " ") and a in "$`{[" else b
        for i, (a, b) in enumerate(zip(line, bare, strict=True))
    )


def split_sentences(source: str) -> str:
    """The source with one sentence on each line of prose."""
    prose = dict(prose_lines(source))
    lines = enumerate(source.split("\n"))
    return "\n".join("\n".join(split_line(line)) if number in prose else line for number, line in lines)


def wrapped_lines(source: str) -> list[str]:
    """Lines of prose that go on with the sentence of the line before."""
    lines = dict(prose_lines(source))
    found = []
    for number, line in lines.items():
        before = lines.get(number - 1)
        if before is None or re.match(r"^\s*(?:[-*+]|\d+\.) ", line):
            continue
        if re.match(r"^[a-z]", line.lstrip()) and not re.search(r"[.?!:;][\"'”)*_]*$", before.rstrip()):
            found.append(line.strip())
    return found


def words(source: str) -> int:
    """Words of prose; a formula, a role or a piece of code counts as one."""
    return sum(len(re.findall(r"[^\W\d_][\w'’-]*", without_spans(line))) for _, line in prose_lines(source))


def typed_results(source: str) -> list[str]:
    """Lines that speak of something measured and hold a typed number.

    Measured: accuracy, error, RMSE, coverage, sparsity, FPR, FNR, speed-up and the like (MEASURED). A number: with a
    decimal point, a percent sign, "times" or +-. Numbers from the store come by `{eval}` and are invisible here. A
    line that quotes a published value ends with `<!-- published -->`, one that states a convention such as "the 95 %
    band" with `<!-- definition -->`. Formulas are not looked into unless they hold \\pm.
    """
    found = []
    for _, line in prose_lines(source):
        if EXCUSED.search(line) or not MEASURED.search(without_spans(line)):
            continue
        spans = [span for span in re.findall(r"\$[^$\n]+\$", line) if r"\pm" in span and re.search(r"\d", span)]
        if NUMBER.search(NAMED.sub("", without_spans(line))) or spans:
            found.append(line.strip())
    return found
