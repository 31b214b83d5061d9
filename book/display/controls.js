// Moves one explorer: reads its knobs, shows the stop, says it. `paint` and `describe` belong to the kind of picture.
const knobs = [...root.querySelectorAll(".bnn-control")];
const said = find(".bnn-said");
let speak = 0;
const position = (knob) => {
  const buttons = [...knob.querySelectorAll("[type=radio]")];
  return buttons.length ? buttons.findIndex((button) => button.checked) : Number(knob.querySelector("input").value);
};
const show = (moved) => {
  let point = 0;
  knobs.forEach((knob, i) => {
    const at = position(knob), text = data.texts[i][at], output = knob.querySelector("output");
    if (output) {
      output.value = text;
      knob.querySelector("input").setAttribute("aria-valuetext", text);
    }
    point = point * data.texts[i].length + at;
  });
  describe(data.alts[point]);
  paint(point);
  clearTimeout(speak);
  if (moved) speak = setTimeout(() => { said.textContent = data.alts[point]; }, 600);
};
const group = document.querySelectorAll(".bnn-explorer[data-ready]").length;
knobs.forEach((knob, i) => {
  for (const input of knob.querySelectorAll("input")) {
    if (input.type === "radio") {
      input.name = `bnn-${group}-${i}`;  // the arrow keys move within a name, and the same explorer may stand twice
      input.checked = input.defaultChecked;
    } else input.value = input.getAttribute("value");
    input.addEventListener("input", () => show(true));
  }
});
find(".bnn-controls").hidden = false;
root.dataset.ready = "";
show(false);
