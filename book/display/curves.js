// Draws the panels of one stop from numbers. Every item becomes one element, in the order of the items.
const NS = "http://www.w3.org/2000/svg";
const arrays = [];
const plots = [...root.querySelectorAll(".bnn-plot")];
const heading = find(".bnn-heading span");
const values = (number) => {
  let value = 0, slope = 0;  // stored are second differences
  return (arrays[number] ??= data.arrays[number].map((step) => (value += slope += step)));
};
const element = (parent, name, attributes, text) => {
  const made = document.createElementNS(NS, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (text !== undefined) made.textContent = text;
  return parent.appendChild(made);
};
const at = (x, y) => x.toFixed(2) + " " + y.toFixed(2);
const outlines = {
  line: (item, x, y) => {
    let from = 0;
    return (item.runs ?? [x.length]).map((length) => {
      const run = x.slice(from, from + length).map((one, i) => at(one, y[from + i]));
      from += length;
      return length ? "M" + run.join("L") + (length === 1 ? "h0" : "") : "";
    }).join("");
  },
  points: (item, x, y) => x.map((one, i) => "M" + at(one, y[i]) + item.shape).join(""),
  bars: (item, x, y, low, right) =>
    x.map((one, i) => `M${at(one, low[i])}V${y[i].toFixed(2)}H${right[i].toFixed(2)}V${low[i].toFixed(2)}z`).join(""),
  band: (item, x, y, low) => x.length
    ? "M" + [...x.map((one, i) => at(one, y[i])), ...x.map((one, i) => at(one, low[i])).reverse()].join("L") + "z"
    : "",
};
const drawItem = (area, item, width, height) => {
  const across = (one) => one * width / data.unit, up = (one) => height - one * height / data.unit;
  const color = `color:var(--bnn-${item.look})`;
  const opacity = item.alpha ?? 1;
  if (item.kind === "text") {
    const where = {x: across(item.x), y: up(item.y), dy: ".35em", "text-anchor": item.anchor, style: color};
    element(area, "text", {...where, class: "bnn-words"}, item.text);
    return;
  }
  const stroke = {fill: "none", stroke: "currentColor", "stroke-width": item.width, "stroke-dasharray": item.dash};
  if (item.kind === "rule") {
    const level = "y" in item, upright = "x" in item;
    const d = level ? "M0 " + up(item.y).toFixed(2) + "h" + width : "M" + across(item.x).toFixed(2) + " 0v" + height;
    element(area, "path", {...stroke, d: level || upright ? d : "", style: color});
    return;
  }
  const map = (key, place) => key in item ? values(item[key]).map(place) : [];
  const d = outlines[item.kind](item, map("x", across), map("y", up), map("low", up), map("right", across));
  const ground = item.kind === "points" ? "var(--bnn-ground)" : "none";
  const filled = {fill: item.hollow ? ground : "currentColor", stroke: "currentColor",
    "stroke-width": item.hollow ? 1.4 : 0};
  const look = item.kind === "line" ? {...stroke, "stroke-linejoin": "round"} : filled;
  element(area, "path", {...look, d, opacity, style: color});
};
const drawPanel = (plot, number) => {
  const box = plot.getBoundingClientRect();
  if (!box.width) return;  // not on screen yet
  const [xaxis, yaxis, items] = data.panels[number];
  const [xticks, yticks] = [data.axes[xaxis], data.axes[yaxis]];
  const framed = !("bare" in plot.dataset);
  const {xlabel, ylabel} = plot.dataset;
  const left = framed ? 8 + 7.2 * data.room + (ylabel ? 20 : 0) : 4, right = framed ? 14 : 4;
  const top = 8, bottom = framed ? (xlabel ? 44 : 26) : 4;
  const width = box.width - left - right, height = box.height - top - bottom;
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
  for (const item of items) drawItem(area, data.items[item], width, height);
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
