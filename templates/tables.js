"use strict";
// Tables in a page: cards on a phone, sorting, and filtering. Other scripts of the page use the three functions below.
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const make = (tag, properties, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};
const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

(() => {
  // Tables with a head: a phone shows each row as a card, so that every cell needs its column's name.
  for (const table of all("main table")) {
    const heads = [];
    for (const cell of all("thead th, thead td", table)) for (let n = 0; n < cell.colSpan; n += 1) heads.push(cell.querySelector("svg") ? "" : cell.textContent.trim());
    if (heads.length === 0 || (table.closest(".scroll") && !table.classList.contains("questions"))) continue;
    table.classList.add("stack");
    table.setAttribute("role", "table");
    for (const part of all("thead, tbody", table)) part.setAttribute("role", "rowgroup");
    for (const row of table.rows) {
      row.setAttribute("role", "row");
      let column = 0;
      for (const cell of row.cells) {
        const head = cell.closest("thead");
        cell.setAttribute("role", cell.tagName === "TD" ? "cell" : head ? "columnheader" : "rowheader");
        if (!head && cell.tagName === "TD" && heads[column]) cell.dataset.label = heads[column];
        column += cell.colSpan;
      }
    }
  }

  // Sorting: a button in each head; numbers by their size, anything else by its letters, empty cells last.
  const keyOf = (cell) => {
    if (cell.dataset.sort) return cell.dataset.sort;
    const text = cell.textContent.trim();
    const found = text.replace(/\u2212/g, "-").replace(/,(?=\d{3})/g, "").match(/^(?:under\s)?-?\d+(?:\.\d+)?/);
    return found ? Number(found[0].replace(/^under\s/, "")) : text.toLowerCase();
  };
  const compare = (one, other) => {
    if (typeof one === typeof other) return typeof one === "number" ? one - other : one.localeCompare(other, "en", { numeric: true });
    return typeof one === "number" ? -1 : 1;
  };
  for (const table of all("main table.sortable")) {
    const rows = all("tbody tr", table);
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const name = head.textContent;
      const button = make("button", { type: "button", className: "sort" }, name);
      head.replaceChildren(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => {
        const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
        for (const other of heads) other.setAttribute("aria-sort", other === head ? order : "none");
        const sign = order === "ascending" ? 1 : -1;
        const sorted = rows.map((row) => [row, keyOf(row.cells[column])]).sort(([, a], [, b]) => sign * compare(a, b));
        table.tBodies[0].append(...sorted.map(([row]) => row));
      });
    });
    if (rows.length < 4) continue;
    const input = make("input", { type: "search", autocomplete: "off" });
    const shown = make("output", {});
    const caption = table.caption ? table.caption.textContent.trim() : "table";
    input.setAttribute("aria-label", `Filter rows: ${caption}`);
    const texts = rows.map((row) => [row, row.textContent.toLowerCase()]);
    input.addEventListener("input", () => {
      const words = wordsOf(input.value);
      let count = 0;
      for (const [row, text] of texts) {
        const hit = words.every((word) => text.includes(word));
        row.classList.toggle("filtered", !hit);
        count += hit;
      }
      shown.textContent = words.length ? `${count} of ${rows.length} rows` : "";
    });
    (table.closest(".scroll") || table).before(make("p", { className: "filter" }, make("label", {}, "Filter rows ", input), " ", shown));
  }
})();
