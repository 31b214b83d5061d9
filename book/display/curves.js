// Draws the panels of one stop from numbers. Every item becomes one element, in the order of the items.
const NS = "http://www.w3.org/2000/svg";
const plots = [...root.querySelectorAll(".bnn-plot")];
const heading = find(".bnn-heading span");
// What several share is stored once and given by its number.
const shared = (pool, one) => typeof one === "number" ? data[pool][one] : one;
const values = (one) => {
  let value = 0, slope = 0;  // stored are second differences
  return shared("arrays", one).map((step) => (value += slope += step));
};
const element = (parent, name, attributes, text) => {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
};
const at = (x, y) => x.toFixed(2) + " " + y.toFixed(2);
const outlines = {
  line: ([x, y], runs = [x.length]) => {
    let from = 0;
    return runs.map((length) => {
      const run = x.slice(from, from + length).map((one, i) => at(one, y[from + i]));
      from += length;
      return length ? "M" + run.join("L") + (length === 1 ? "h0" : "") : "";
    }).join("");
  },
  bars: ([left, high, low, right]) => left.map((one, i) =>
    `M${at(one, low[i])}V${high[i].toFixed(2)}H${right[i].toFixed(2)}V${low[i].toFixed(2)}z`).join(""),
  band: ([x, high, low]) => x.length
    ? "M" + [...x.map((one, i) => at(one, high[i])), ...x.map((one, i) => at(one, low[i])).reverse()].join("L") + "z"
    : "",
};
const drawItem = (area, [number, arrays, more], width, height) => {
  const style = data.styles[number], {kind} = style;
  const across = (one) => one * width / data.unit, up = (one) => height - one * height / data.unit;
  const places = arrays.map((one, i) => values(one).map(i % 3 ? up : across));
  const color = `color:var(--bnn-${style.look})`;
  if (kind === "text") {
    const where = {x: places[0], y: places[1], dy: ".35em", "text-anchor": style.anchor, style: color};
    element(area, "text", {...where, class: "bnn-words"}, more);
    return;
  }
  let d;
  if (kind === "rule") {
    d = places[0].map((x) => `M${x.toFixed(2)} 0v${height}`) + places[1].map((y) => `M0 ${y.toFixed(2)}h${width}`);
  } else if (kind === "points") {
    d = places[0].map((x, i) => "M" + at(x, places[1][i]) + style.shape).join("");
  } else d = outlines[kind](places, more);
  const drawn = kind === "line" || kind === "rule"
    ? {fill: "none", "stroke-width": style.width, "stroke-dasharray": style.dash, "stroke-linejoin": "round"}
    : style.hollow
    ? {fill: kind === "points" ? "var(--bnn-ground)" : "none", "stroke-width": 1.4}
    : {fill: "currentColor", "stroke-width": 0};
  element(area, "path", {stroke: "currentColor", ...drawn, d, opacity: style.alpha ?? 1, style: color});
};
const drawPanel = (plot, panel) => {
  const box = plot.getBoundingClientRect();
  if (!box.width) return;  // not on screen yet
  const [xaxis, yaxis, items] = shared("panels", panel);
  const [xticks, yticks] = [data.axes[xaxis], data.axes[yaxis]];
  const framed = !("bare" in plot.dataset);
  const {xlabel, ylabel} = plot.dataset;
  const left = framed ? 8 + 7.2 * data.room + (ylabel ? 20 : 0) : 4, right = framed ? 18 : 4;
  const top = 8, bottom = framed ? (xlabel ? 44 : 26) : 4;
  const width = box.width - left - right, height = box.height - top - bottom;
  if (width < 1 || height < 1) return;
  plot.textContent = "";
  plot.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
  const frame = element(plot, "g", {transform: `translate(${left} ${top})`});
  xticks[0].forEach((one, i) => {
    const x = one * width / data.unit;
    element(frame, "path", {class: "bnn-grid", d: `M${x.toFixed(2)} 0V${height}`});
    element(frame, "text", {x, y: height + 17, "text-anchor": "middle"}, xticks[1][i]);
  });
  yticks[0].forEach((one, i) => {
    const y = height - one * height / data.unit;
    element(frame, "path", {class: "bnn-grid", d: `M0 ${y.toFixed(2)}H${width}`});
    element(frame, "text", {x: -6, y, dy: ".35em", "text-anchor": "end"}, yticks[1][i]);
  });
  const area = element(frame, "svg", {class: "bnn-area", width, height, overflow: "hidden"});
  for (const item of items) drawItem(area, shared("items", item), width, height);
  if (!framed) return;
  element(frame, "path", {class: "bnn-axis", d: `M0 0V${height}H${width}`});
  if (xlabel) element(frame, "text", {class: "bnn-label", x: width / 2, y: height + 37, "text-anchor": "middle"}, xlabel);
  const beside = `translate(${12 - left} ${height / 2}) rotate(-90)`;
  if (ylabel) element(frame, "text", {class: "bnn-label", transform: beside, "text-anchor": "middle"}, ylabel);
};
let shown = 0;
const paint = (point) => {
  shown = point;
  const [words, ...panels] = data.stops[point];
  if (heading) heading.textContent = data.headings[words];
  plots.forEach((plot, i) => drawPanel(plot, panels[i]));
  root.dataset.stop = point;
};
const describe = (words) => find(".bnn-first").setAttribute("aria-label", words);
new ResizeObserver(() => paint(shown)).observe(find(".bnn-panels"));
