// What a style sheet alone cannot do for the printed page; print.css does the rest.
(() => {
  const PAPER = 178; // millimeters of text on A4 between the margins of print.css; other papers are wider
  const LETTERS = 10; // points of the root's letters on paper
  const NUMBER = 3.5; // room for the number of an equation, in root letters
  const root = document.documentElement;

  // A display wider than the paper gets the size at which it fits. All lengths scale with the root's letters, so what
  // is measured on the screen holds on paper.
  const fitFormulas = () => {
    const rem = parseFloat(getComputedStyle(root).fontSize);
    const width = PAPER / 25.4 * 72 / LETTERS;
    const article = document.querySelector(".bd-article");
    for (const box of document.querySelectorAll('.bd-article mjx-container[display="true"]')) {
      const formula = box.querySelector("mjx-math");
      const around = Math.max(article.clientWidth - box.clientWidth, 0) / rem;
      const room = width - around - NUMBER;
      const needed = formula.getBoundingClientRect().width / rem;
      if (needed <= room) continue;
      const size = parseFloat(box.style.fontSize) || 100;
      box.style.setProperty("--print-size", `${(size * room / needed).toFixed(1)}%`);
    }
  };

  // Paper is light, and what is folded cannot be opened there. Hidden code stays hidden.
  let before = null;
  const prepare = () => {
    if (before) return;
    const folded = [...document.querySelectorAll(".bd-article details:not(.hide, [open])")];
    before = { theme: root.dataset.theme, folded };
    root.dataset.theme = "light";
    folded.forEach((box) => (box.open = true));
  };
  const restore = () => {
    if (!before) return;
    root.dataset.theme = before.theme;
    before.folded.forEach((box) => (box.open = false));
    before = null;
  };
  window.addEventListener("beforeprint", prepare);
  window.addEventListener("afterprint", restore);
  window.matchMedia("print").addEventListener("change", ({ matches }) => (matches ? prepare() : restore()));

  window.addEventListener("load", async () => {
    if (window.MathJax?.startup) await MathJax.startup.promise;
    await document.fonts?.ready;
    fitFormulas();
    root.dataset.typeset = "yes"; // the printer of the whole book waits for it
  });
})();
