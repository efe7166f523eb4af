"use strict";
// Search within this page: rows, list items and paragraphs that do not hold the words are hidden, folded parts that do are opened.
(() => {
  const box = document.getElementById("search");
  const told = document.getElementById("search-result");
  const folds = [...document.querySelectorAll("details.fold")];
  const opened = new Map(folds.map((fold) => [fold, fold.open]));
  const units = [...document.querySelectorAll("main tbody tr, main li, main section > p, main figure, main dt, main dd, main details p")]
    .filter((unit) => !unit.querySelector("tbody tr, li"))
    .map((unit) => [unit, unit.textContent.toLowerCase()]);
  const headed = [...document.querySelectorAll("main table, main article, main section, main details.fold")];

  function search() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
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
