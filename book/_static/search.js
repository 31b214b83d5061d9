// The search page: every result leads to a section and quotes it, from the texts in excerpts.js.
// Sphinx would fetch the pages it has found, which a browser refuses where the book is read from a folder.
{
  const AROUND = 110; // letters before and after the word
  const PER_PAGE = 3; // sections shown of a page that has many

  // Where the phrase, or else the first of its words, stands in a text; -1 if it does not.
  const place = (text, phrase, words) => {
    const lower = text.toLowerCase();
    const whole = lower.indexOf(phrase);
    if (whole >= 0) return whole;
    const found = words.map((word) => lower.indexOf(word)).filter((at) => at >= 0);
    return found.length ? Math.min(...found) : -1;
  };

  // How well a section fits: the phrase as it was typed, then how many of its words.
  const fit = ([, title, text], phrase, words) => {
    const lower = `${title} ${text}`.toLowerCase();
    return (lower.includes(phrase) ? 100 : 0) + words.filter((word) => lower.includes(word)).length;
  };

  // The sections that a result of Sphinx stands for: its own anchor, or the best ones of the page.
  const sections = ([page, , anchor], phrase, words) => {
    const all = EXCERPTS[page] ?? [];
    if (anchor) return all.filter(([id]) => `#${id}` === anchor);
    const best = Math.max(...all.map((one) => fit(one, phrase, words)));
    const fitting = best > 0 ? all.filter((one) => fit(one, phrase, words) === best) : [];
    return fitting.length ? fitting.slice(0, PER_PAGE) : all.slice(0, 1);
  };

  const excerpt = (text, phrase, words) => {
    const at = Math.max(place(text, phrase, words), 0);
    const from = at > AROUND ? text.indexOf(" ", at - AROUND) + 1 : 0;
    const rest = text.slice(from, at + AROUND);
    const shown = document.createElement("p");
    shown.className = "context";
    shown.textContent = (from ? "… " : "") + rest + (at + AROUND < text.length ? " …" : "");
    return shown;
  };

  // A screen reader says what changes in a place that it knew before; Sphinx would make a new one, and put the number in.
  const found = document.createElement("p");
  found.className = "search-summary";
  found.setAttribute("role", "status");
  document.getElementById("search-results").before(found);

  Search.query = (query) => {
    const [asked, terms, excluded, highlighted, objects] = Search._parseQuery(query);
    const phrase = asked.toLowerCase().trim();
    const words = [...new Set([...highlighted, ...terms])];
    const results = Search._performSearch(asked, terms, excluded, highlighted, objects).reverse(); // best first
    const shown = new Set();
    for (const result of results) {
      const page = result[0];
      for (const [id, title, text] of sections(result, phrase, words)) {
        const address = page + DOCUMENTATION_OPTIONS.LINK_SUFFIX + (id && `#${id}`);
        if (shown.has(address)) continue;
        shown.add(address);
        const item = Search.output.appendChild(document.createElement("li"));
        const link = item.appendChild(document.createElement("a"));
        link.href = document.documentElement.dataset.content_root + address;
        const top = EXCERPTS[page][0][1];
        link.textContent = id ? `${top} > ${title}` : title;
        if (text) item.appendChild(excerpt(text, phrase, words));
        highlighted.forEach((term) => _highlightText(item, term, "highlighted"));
      }
    }
    Search.status.remove();
    Search.status = found;
    _finishSearch(shown.size);
    const some = `${shown.size} ${shown.size === 1 ? "section" : "sections"} with “${asked}”.`;
    found.textContent = shown.size ? some : `Nothing was found for “${asked}”. Are all words spelled as in the book? Fewer words find more.`;
  };
}
