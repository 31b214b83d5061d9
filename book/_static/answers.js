// The questions of a page: reads an answer, applies the rules that the build took from the exercise's check in Python
// (book/display/exercises/page.py), says what is wrong with it, and keeps what was answered.
const bnnAnswers = (() => {
  const WORDS = { pi: Math.PI, e: Math.E };
  const CALLS = { sqrt: Math.sqrt, exp: Math.exp, log: Math.log, ln: Math.log, abs: Math.abs };
  const TOKEN = /\s*(?:((?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[-+]?\d+)?)|([a-z]+)|(\*\*|[-+*/^()[\],]))/iy;

  // A number, a sum such as 1/3 or sqrt(2), or lists of them, as nested arrays; throws what is wrong with the text.
  const read = (text) => {
    const clean = text.replace(/[\u2212\u2013]/g, "-").replace(/[\u00d7\u00b7]/g, "*").trim();
    if (/^[-+]?\d+,\d+$/.test(clean)) throw Error(`write ${clean.replace(",", ".")} with a point, or leave out the comma.`);
    const tokens = [];
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < clean.length) {
      const from = TOKEN.lastIndex, found = TOKEN.exec(clean);
      if (!found) throw Error(`“${clean.slice(from).trim()[0]}” cannot be read here.`);
      tokens.push({ number: found[1], word: found[2], sign: found[3] });
    }
    let at = 0;
    const next = (sign) => tokens[at]?.sign === sign && ++at;
    const need = (sign) => next(sign) || fail(`“${sign}” is missing.`);
    const fail = (said) => { throw Error(said); };
    const atom = () => {
      const token = tokens[at++];
      if (!token) fail("it ends too early.");
      if (token.number) return Number(token.number.replaceAll("_", ""));
      if (token.word) {
        const word = token.word.toLowerCase();
        if (Object.hasOwn(WORDS, word)) return WORDS[word];
        if (!Object.hasOwn(CALLS, word)) fail(`“${token.word}” is not known; there are ${Object.keys({ ...CALLS, ...WORDS }).join(", ")}.`);
        need("(");
        const inside = sum();
        need(")");
        return CALLS[word](inside);
      }
      if (token.sign !== "(") fail(`“${token.sign}” cannot stand there.`);
      const inside = sum();
      need(")");
      return inside;
    };
    const power = () => { const base = atom(); return next("**") || next("^") ? base ** signed() : base; };
    const signed = () => (next("-") ? -signed() : next("+") ? signed() : power());
    const product = () => {
      let value = signed();
      for (;;) if (next("*")) value *= signed(); else if (next("/")) value /= signed(); else return value;
    };
    const sum = () => {
      let value = product();
      for (;;) if (next("+")) value += product(); else if (next("-")) value -= product(); else return value;
    };
    const item = () => {
      if (!next("[")) return sum();
      const inside = list();
      need("]");
      return inside;
    };
    const list = () => { const items = [item()]; while (next(",")) items.push(item()); return items; };
    const items = list();
    if (at < tokens.length) fail(`“${tokens[at].sign ?? tokens[at].number ?? tokens[at].word}” cannot stand there.`);
    return items.length > 1 ? items : items[0];
  };

  const shapeOf = (value) => {
    if (!Array.isArray(value)) return [];
    const inner = value.map(shapeOf);
    if (inner.some((one) => String(one) !== String(inner[0]))) throw Error("its rows have different lengths.");
    return [value.length, ...inner[0]];
  };
  // Six significant digits, as Python's "g" writes them.
  const shown = (value) => {
    const [digits, power] = value.toExponential(5).split("e").map(Number);
    if (power >= -4 && power < 6) return String(Number(value.toPrecision(6)));
    return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  };
  const tuple = (shape) => `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`;
  const without = (shape) => String(shape.filter((length) => length !== 1));
  const outside = ([low, high], given) => {
    const [least, most] = [[low].flat(), [high].flat()];
    return given.map((one, i) => (least[i] !== null && one < least[i]) || (most[i] !== null && one > most[i]));
  };

  // What is said to a value of any shape: {right, message}.
  const judge = (question, value) => {
    const { shape } = question, single = !shape.length, given = [value].flat(Infinity), has = shapeOf(value);
    if (given.some((one) => !Number.isFinite(one))) return { right: false, message: "it has no finite value." };
    if (single && given.length !== 1)
      return { right: false, message: `one number is asked, an array of shape ${tuple(has)} was given.` };
    if (without(has) !== without(shape)) {
      const turned = String(has) === String([...shape].reverse()) ? " (the axes are swapped: transpose it)" : "";
      return { right: false, message: `not yet: the shape should be ${tuple(shape)}, it is ${tuple(has)}${turned}.` };
    }
    for (const [low, high, said, kind] of question.rules) {
      if (outside([low, high], given).includes(true) || (kind & 2 && Number.isInteger(given[0]))) continue;
      return { right: Boolean(kind & 1), message: single ? said.replace("{}", shown(given[0])) : said };
    }
    const off = outside(question.rules[0], given), first = off.indexOf(true);
    const place = shape.map((length, i) => Math.floor(first / shape.slice(i + 1).reduce((a, b) => a * b, 1)) % length);
    const count = off.filter(Boolean).length, entry = `entry [${place.join(", ")}]: ${shown(given[first])}`;
    return { right: false, message: `not yet: ${count} of ${off.length} entries are off; the first is ${entry}.` };
  };

  // The verdict on what was typed or chosen; `answered` is false where there is nothing to judge.
  const verdict = (question, answer) => {
    if (!answer.trim()) return { right: false, answered: false, message: "not answered yet." };
    if (question.options) {
      const [right, message] = question.options[answer];
      return { right: Boolean(right), answered: true, message };
    }
    try {
      return { answered: true, ...judge(question, read(answer)) };
    } catch (error) {
      return { right: false, answered: true, message: `this is no ${question.shape.length ? "list" : "number"}: ${error.message}` };
    }
  };

  // Written into the page so that a right answer is not read by chance: every sign is turned by 47 places.
  const decoded = (text) =>
    JSON.parse(text.replace(/[!-~]/g, (sign) => String.fromCharCode(33 + ((sign.charCodeAt(0) + 14) % 94))));

  return { decoded, read, verdict };
})();

document.addEventListener("DOMContentLoaded", () => {
  const NAME = "bnn-answers", forms = [...document.querySelectorAll("form.bnn-question")];
  const progress = document.querySelector(".bnn-progress");
  if (!forms.length) return;
  let answers = {};
  const load = () => {
    try {
      const found = JSON.parse(localStorage.getItem(NAME));
      answers = found instanceof Object && !Array.isArray(found) ? found : {};
    } catch { /* kept for this visit alone */ }
  };
  const keep = () => { try { localStorage.setItem(NAME, JSON.stringify(answers)); } catch { /* no storage, or none left */ } };
  const asked = forms.map((form) => {
    const question = bnnAnswers.decoded(form.dataset.question), output = form.querySelector("output");
    const fields = [...form.querySelectorAll("input")], choice = fields[0].type === "radio";
    const value = () => (choice ? fields.find((one) => one.checked)?.value : fields[0].value) ?? "";
    const tell = ({ right, answered, message }) => {
      form.dataset.state = right ? "right" : answered ? "wrong" : "";
      output.textContent = `${right ? "✓ " : answered ? "✗ " : ""}${message}`;
      fields.forEach((one) => one.setAttribute("aria-invalid", String(answered && !right)));
    };
    const show = () => {  // what was answered at an earlier visit
      const answer = answers[question.id]?.answer ?? "";
      fields.forEach((one) => { if (choice) one.checked = one.value === answer; else one.value = answer; });
      delete form.dataset.state;
      output.textContent = "";
      fields.forEach((one) => one.removeAttribute("aria-invalid"));
      if (value()) tell(bnnAnswers.verdict(question, value()));
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const said = bnnAnswers.verdict(question, value());
      output.textContent = "";  // the same words once more are read aloud as well
      requestAnimationFrame(() => tell(said));
      if (said.answered) answers[question.id] = { answer: value(), right: said.right };
      keep();
      count();
    });
    form.hidden = false;
    return { id: question.id, show };
  });
  const count = () => {
    const right = asked.filter(({ id }) => answers[id]?.right).length;
    progress.querySelector("meter").value = right;
    progress.querySelector("[role=status]").textContent = `${right} of ${asked.length} questions of this page are answered.`;
  };
  const all = () => { asked.forEach(({ show }) => show()); count(); };
  const press = (name, action) => progress.querySelector(`[data-do=${name}]`).addEventListener("click", action);
  press("export", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(answers, null, 1)], { type: "application/json" }));
    link.download = "answers.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
  press("import", () => progress.querySelector("[type=file]").click());
  progress.querySelector("[type=file]").addEventListener("change", async ({ target }) => {
    try {
      const given = JSON.parse(await target.files[0].text());
      for (const [id, { answer, right }] of Object.entries(given)) answers[id] = { answer: String(answer), right: right === true };
      keep();
      all();
    } catch {
      progress.querySelector("[role=status]").textContent = "This file does not hold answers that were exported here.";
    }
    target.value = "";
  });
  press("reset", () => {
    if (!confirm("Forget the answers to all questions of the book?")) return;
    answers = {};
    keep();
    all();
  });
  window.addEventListener("storage", (event) => { if (event.key === NAME || event.key === null) { load(); all(); } });
  for (const one of [progress, ...document.querySelectorAll(".bnn-closer")]) one.hidden = false;
  load();
  all();
});
