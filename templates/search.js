"use strict";
// Search within this page, and explain terms in place. `tables.js` stands before it. Rows, items and paragraphs without the words searched for are hidden.
(() => {
  // Tabs: without this script all panels stand below each other, as on paper. A link opens the panel that it leads into.
  const panels = all("main .panel");
  const bar = document.getElementById("tabs");
  const links = all(".contents a");
  const panelOf = (anchor) => document.getElementById(anchor.slice(1))?.closest(".panel");
  const tabs = panels.map((panel) => {
    const tab = make("button", { type: "button", id: `of-${panel.id}` }, panel.dataset.tab);
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => { open(panel); window.scrollTo(0, 0); });
    // Each tab is a page to who hears it, and the title stands in the first one alone.
    if (!panel.querySelector("h1")) panel.prepend(make("h1", { className: "hidden screen-alone" }, `${document.title}: ${panel.dataset.tab}`));
    return tab;
  });
  function open(chosen) {
    panels.forEach((panel, place) => {
      panel.classList.toggle("shut", panel !== chosen);
      tabs[place].setAttribute("aria-selected", String(panel === chosen));
      tabs[place].tabIndex = panel === chosen ? 0 : -1;
    });
    for (const link of links) link.parentElement.hidden = panelOf(link.getAttribute("href")) !== chosen;
  }
  const follow = () => {
    const panel = window.location.hash ? panelOf(decodeURIComponent(window.location.hash)) : null;
    if (!panel) return;
    open(panel);
    document.getElementById(decodeURIComponent(window.location.hash).slice(1)).scrollIntoView();
  };
  if (panels.length > 1) {
    bar.setAttribute("role", "tablist");
    bar.setAttribute("aria-label", "Parts of this report");
    bar.append(...tabs);
    bar.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
      next.click();
      next.focus();
    });
    open(panels[0]);
    follow();
    window.addEventListener("hashchange", follow);
  }

  // Terms: their meaning on hover and on focus; Escape closes it, and the pointer may move onto it.
  const tip = make("div", { id: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);
  let closing = 0;
  const hide = () => { tip.hidden = true; };
  const later = () => { closing = window.setTimeout(hide, 200); };
  const show = (term) => {
    window.clearTimeout(closing);
    tip.textContent = document.getElementById(term.getAttribute("aria-describedby")).textContent;
    tip.hidden = false;
    const place = term.getBoundingClientRect();
    const left = Math.max(8, Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8));
    const below = place.bottom + tip.offsetHeight + 12 < window.innerHeight;
    tip.style.left = `${left + window.scrollX}px`;
    tip.style.top = `${(below ? place.bottom + 6 : place.top - tip.offsetHeight - 6) + window.scrollY}px`;
  };
  for (const term of all("a.term")) {
    term.addEventListener("mouseenter", () => show(term));
    term.addEventListener("focus", () => show(term));
    term.addEventListener("mouseleave", later);
    term.addEventListener("blur", later);
  }
  tip.addEventListener("mouseenter", () => window.clearTimeout(closing));
  tip.addEventListener("mouseleave", later);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // The search.
  const box = document.getElementById("search");
  const told = document.getElementById("search-result");
  const folds = all("details.fold");
  const opened = new Map(folds.map((fold) => [fold, fold.open]));
  const units = all("main tbody tr, main li, main section > p, main figure, main dt, main dd, main details p")
    .filter((unit) => !unit.querySelector("tbody tr, li"))
    .map((unit) => [unit, unit.textContent.toLowerCase()]);
  const headed = all("main table, main article, main section, main details.fold, main dl > div");

  function search() {
    const words = wordsOf(box.value);
    let found = 0;
    for (const [unit, text] of units) {
      const hit = words.every((word) => text.includes(word));
      unit.classList.toggle("unmatched", !hit);
      found += hit;
    }
    for (const part of headed) {
      const inner = units.some(([unit]) => part.contains(unit) && !unit.classList.contains("unmatched"));
      const had = units.some(([unit]) => part.contains(unit));
      part.classList.toggle("unmatched", words.length > 0 && had && !inner);
    }
    document.body.classList.toggle("searching", words.length > 0);
    for (const fold of folds) fold.open = words.length > 0 || opened.get(fold);
    told.textContent = words.length === 0 ? "" : found === 1 ? "1 place" : `${found} places`;
  }

  document.getElementById("search-form").hidden = false;
  document.getElementById("contents").open = !window.matchMedia("(max-width: 66rem)").matches;
  document.getElementById("search-form").addEventListener("submit", (event) => event.preventDefault());
  box.addEventListener("input", search);
  window.addEventListener("beforeprint", () => folds.forEach((fold) => { fold.open = true; }));
  window.addEventListener("afterprint", () => folds.forEach((fold) => { fold.open = opened.get(fold); }));
})();
