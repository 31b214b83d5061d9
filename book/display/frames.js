// Shows the picture of one stop, put together from the pieces that the pictures have in common.
const first = find(".bnn-first");
const still = first.cloneNode();
still.className = "bnn-print";
first.after(still);
const picture = (number) => {
  const svg = data.frames[number].map((piece) => data.pieces[piece]).join("");
  return "data:image/svg+xml," + encodeURIComponent(svg);
};
const paint = (point) => {
  const number = data.index[point];
  if (root.dataset.frame !== String(number)) first.src = number ? picture(number) : still.src;
  root.dataset.frame = number;
};
const describe = (words) => { first.alt = words; };
