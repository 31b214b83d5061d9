// What is wider than the page scrolls by itself. The style sheet fades the side at which it is cut (data-cut), and as
// long as it is cut, the keyboard can reach it and a screen reader has a name for it.
(() => {
  const words = (element) => (element ? element.textContent.replace("#", "").replace(/\s+/g, " ").trim() : "");
  const tableName = (box) => {
    const table = box.querySelector("table");
    return box.getAttribute("aria-label") || words(table?.caption) || table?.getAttribute("aria-label") || `Table: ${words(table?.querySelector("tr"))}`;
  };
  // Only tables are landmarks: a page with thirty regions is no easier to find one's way in.
  const KINDS = [
    [".pst-scrollable-table-container, .bnn-table", "region", tableName],
    [".bd-article pre", "group", (box) => (box.closest(".cell_output") ? "Output" : "Code")],
    [".bd-article figure > a.image-reference", null, null], // a link: it has its place in the order and its name
    ["div.math > mjx-container", "group", (box) => `Formula ${words(box.parentElement.querySelector(".eqno"))}`.trim()],
    ["span.math", "group", () => "Formula"],
  ];
  const known = new Map();
  // A formula within a line is left alone until it is wider than its line: accents and slanted letters stand out a little.
  const overhang = (box) =>
    (box.matches("span.math") ? (box.firstElementChild?.offsetWidth ?? 0) : box.scrollWidth) - box.clientWidth;

  // The tables of a report scroll up and down, too.
  const isTall = (box) => box.scrollHeight > box.clientHeight + 1 && getComputedStyle(box).overflowY === "auto";

  const update = (box) => {
    const [role, name] = known.get(box);
    const room = overhang(box);
    const sides = [];
    if (room > 1 && box.scrollLeft > 1) sides.push("left");
    if (room > 1 && box.scrollLeft < room - 1) sides.push("right");
    if (sides.length) box.dataset.cut = sides.join(" ");
    else delete box.dataset.cut;
    if (!role) return;
    // One pixel too many is nothing to fade, and yet the browser scrolls by it.
    if (room > 0 || isTall(box)) {
      box.tabIndex = 0;
      box.setAttribute("role", role);
      box.setAttribute("aria-label", room > 0 ? `${name}, scrolls sideways` : name);
    } else {
      for (const attribute of ["tabindex", "role", "aria-label"]) box.removeAttribute(attribute);
    }
  };

  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) update(known.has(target) ? target : target.parentElement);
  });

  const register = () => {
    for (const [selector, role, name] of KINDS) {
      for (const box of document.querySelectorAll(selector)) {
        if (known.has(box)) continue;
        known.set(box, [role, name?.(box)]);
        box.addEventListener("scroll", () => update(box), { passive: true });
        watch.observe(box);
        if (box.firstElementChild) watch.observe(box.firstElementChild);
      }
    }
  };

  // A line may break after a formula, which is a box, even where a comma or a full stop follows.
  const keepPunctuation = () => {
    for (const formula of document.querySelectorAll(".bd-article span.math")) {
      const after = formula.nextSibling;
      const marks = after?.nodeType === Node.TEXT_NODE && after.data.match(/^[.,;:!?)\]]+/)?.[0];
      if (!marks) continue;
      const both = document.createElement("span");
      both.className = "bnn-unbroken";
      formula.replaceWith(both);
      both.append(formula, marks);
      after.data = after.data.slice(marks.length);
    }
  };

  // Figures that are SVG have views, by what stands behind the "#": in dark colors, and panel by panel for a phone. The
  // style sheet cannot know how wide a picture was drawn, and with it how small its words have become.
  const sized = (image, width, height) => {
    image.style.setProperty("--drawn", width);
    // A panel has another shape than the file.
    Object.assign(image.style, height && { width, height, aspectRatio: `${parseFloat(width)} / ${parseFloat(height)}` });
  };
  const views = () => {
    const print = matchMedia("print").matches;
    const end = !print && document.documentElement.dataset.theme === "dark" ? "dark" : "";
    const phone = !print && matchMedia("(max-width: 576px)").matches;
    document.querySelectorAll(".bd-article figure img[style]:not(.bnn-more)").forEach((image) => {
      image.dataset.whole ??= `${image.style.width} ${image.style.height}`;
      const [file] = image.getAttribute("src").split("#");
      const panels = (phone && image.dataset.panels?.split(" ").filter(Boolean)) || [];
      while (image.nextElementSibling?.classList.contains("bnn-more")) image.nextElementSibling.remove();
      if (!image.classList.contains("bnn-vector")) return sized(image, image.style.width);
      if (!panels.length) {
        image.src = end ? `${file}#${end}` : file;
        return sized(image, ...image.dataset.whole.split(" "));
      }
      panels.map((size, number) => {
        const panel = number ? image.cloneNode() : image;
        panel.src = [`${file}#panel-${number + 1}`, end].filter(Boolean).join("-");
        sized(panel, ...size.split("x").map((side) => `${side}px`));
        return panel;
      }).slice(1).reduce((last, panel) => {
        panel.classList.add("bnn-more");
        panel.alt = ""; // the first says what all show
        last.after(panel);
        return panel;
      }, image);
    });
  };

  document.addEventListener("DOMContentLoaded", () => {
    keepPunctuation();
    views();
    register();
    new MutationObserver(views).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    for (const query of ["(max-width: 576px)", "print"]) matchMedia(query).addEventListener("change", views);
  });
  // Formulas are there when MathJax, a deferred script, has set them.
  window.addEventListener("load", async () => {
    await window.MathJax?.startup?.promise;
    register();
  });
})();
