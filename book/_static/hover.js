// What a reference leads to, shown beside it while the mouse rests on it or the keyboard has come to it: an equation, a
// figure, a table, a theorem, a term of the glossary, and whatever a link says in its title, such as a work or a run.
// Fingers have no hovering: a tap follows the link. What lies on another page comes from previews.js (_ext/previews.py).
(() => {
  const LINKS = ".bd-article a:is([href*='#'], [title]):not(.headerlink, .bnn-preview a)";
  const KINDS = "[id^='equation-'], figure, .bnn-numbered, .proof, .exercise, dl.glossary > dt, table";
  const LEFT_OUT = "script, style, .headerlink, .bnn-controls, button, [hidden]";
  const DELAY = 250; // milliseconds: who only crosses a link sees nothing
  const GAP = 6; // pixels between a link and what is shown of it
  let box = null;
  let link = null; // of what is shown, or will be
  let timer = 0;

  const root = () => new URL(document.documentElement.dataset.content_root || "./", location.href);

  const loaded = new Map();
  const load = (name) => {
    if (!loaded.has(name)) {
      const script = document.createElement("script");
      script.src = new URL(`_static/${name}`, root());
      loaded.set(name, new Promise((done) => (script.onload = script.onerror = done)));
      document.head.append(script);
    }
    return loaded.get(name);
  };

  const others = async () => {
    await load("previews.js");
    return window.bnnPreviews ?? {};
  };

  // Pages without formulas come without MathJax.
  const setFormulas = async (content) => {
    if (!content.querySelector(".math:not(:has(mjx-container))")) return;
    window.MathJax ??= { startup: { typeset: false }, options: { menuOptions: { settings: { inTabOrder: false } } } };
    if (!MathJax.startup?.promise) await load("mathjax/tex-chtml.js");
    await MathJax.startup.promise;
    await MathJax.typesetPromise([content]);
  };

  const html = (text) => Object.assign(document.createElement("div"), { innerHTML: text });

  const contentOf = async (link) => {
    if (link.dataset.said) return Object.assign(document.createElement("p"), { textContent: link.dataset.said });
    const target = new URL(link.href);
    const id = decodeURIComponent(target.hash.slice(1));
    if (target.pathname === location.pathname) {
      const found = document.getElementById(id);
      if (!found?.matches(KINDS)) return null;
      return found.matches("dt") ? html(found.nextElementSibling.innerHTML) : found.cloneNode(true);
    }
    const page = target.pathname.slice(root().pathname.length).replace(/\.html$/, "");
    const text = target.protocol === location.protocol && (await others())[page]?.[id];
    if (!text) return null;
    const content = html(text);
    for (const name of ["href", "src"])
      for (const one of content.querySelectorAll(`[${name}]`)) one[name] = new URL(one.getAttribute(name), target);
    return content;
  };

  const place = () => {
    const at = link.getClientRects()[0];
    if (!at || at.bottom < 0 || at.top > innerHeight) return hide();
    const room = innerHeight - at.bottom - 2 * GAP;
    const below = room >= box.scrollHeight || at.top < innerHeight / 2;
    box.style.maxHeight = `${Math.max(below ? room : at.top - 2 * GAP, 80)}px`;
    box.style.top = `${below ? at.bottom + GAP : at.top - GAP - box.offsetHeight}px`;
    const right = document.documentElement.clientWidth - box.offsetWidth - GAP;
    box.style.left = `${Math.max(GAP, Math.min(at.left, right))}px`;
  };

  const hide = () => {
    clearTimeout(timer);
    link?.removeAttribute("aria-describedby");
    link = null;
    box?.remove();
  };

  const show = async (asked) => {
    const content = await contentOf(asked);
    if (!content || link !== asked) return;
    for (const part of content.querySelectorAll(LEFT_OUT)) part.remove();
    for (const part of [content, ...content.querySelectorAll("[id]")]) part.removeAttribute("id");
    // The keyboard goes on from the link, past what is only shown.
    for (const part of content.querySelectorAll("a, [tabindex]")) part.tabIndex = -1;
    if (!box) {
      box = document.createElement("div");
      box.id = box.className = "bnn-preview";
      box.setAttribute("role", "tooltip");
    }
    box.replaceChildren(content);
    document.querySelector(".bd-article").append(box);
    asked.setAttribute("aria-describedby", box.id);
    place();
    await setFormulas(content);
    if (link === asked) place();
  };

  const want = (found) => {
    clearTimeout(timer);
    if (found !== link) hide();
    link = found;
    // The browser would show the title a second time.
    if (link.title) [link.dataset.said, link.title] = [link.title, ""];
    if (!box?.isConnected) timer = setTimeout(() => show(found), DELAY);
  };

  const leave = () => {
    clearTimeout(timer);
    timer = setTimeout(hide, DELAY); // time enough to reach what is shown
  };

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const found = event.target.closest?.(LINKS);
    if (found) want(found);
    else if (box?.contains(event.target)) clearTimeout(timer);
    else if (link && document.activeElement !== link) leave();
  });
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches(LINKS) && target.matches(":focus-visible")) want(target);
  });
  document.addEventListener("focusout", ({ target }) => target === link && leave());
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  for (const moved of ["scroll", "resize"]) window.addEventListener(moved, () => box?.isConnected && place());
})();
