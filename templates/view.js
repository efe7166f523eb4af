"use strict";
// The page of `docaudit view`: which part is open, charts by uPlot, and two scans side by side. `tables.js` and uPlot stand before it.
(() => {
  const data = JSON.parse(document.getElementById("charts").textContent);
  const panels = all("main .panel");
  const runs = all("main .run");
  const links = all("header nav a");
  document.body.classList.add("scripted");

  // Charts: drawn once they come into view, and again where width or colours change.
  const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const faded = (colour) => `color-mix(in srgb, ${colour} 18%, transparent)`;
  const drawn = new Map();
  function optionsOf(chart, width) {
    const colours = [colourOf("--accent"), colourOf("--undecided"), colourOf("--passed"), colourOf("--neutral")];
    const axis = { stroke: colourOf("--muted"), grid: { stroke: colourOf("--line"), width: 1 }, ticks: { stroke: colourOf("--line"), width: 1 }, font: "12px sans-serif" };
    const hidden = { stroke: "transparent", width: 0, points: { show: false }, class: "interval" };
    const newest = chart.places.length - 1;
    const series = [{ label: chart.axis, value: (self, value, _, place) => chart.names[place ?? newest] }];
    const bands = [];
    // Without a pointer on the chart the legend shows the newest scan.
    chart.lines.forEach((line, number) => {
      const colour = colours[number % colours.length];
      const dash = number ? [6, 3] : [];
      const text = (self, value, _, place) => line.text[place ?? newest];
      series.push({ label: line.label || "measured", stroke: colour, width: 2, dash, points: { show: true, size: 6, fill: colour }, value: text });
      series.push({ ...hidden, label: "to" }, { ...hidden, label: "from" });
      bands.push({ series: [series.length - 2, series.length - 1], fill: faded(colour) });
    });
    if (chart.limit !== null) series.push({ label: "limit", stroke: colourOf("--violated"), width: 2, dash: [10, 5], points: { show: false }, value: () => chart.limit_text });
    const first = chart.places[0];
    const last = chart.places[newest];
    const air = (last - first) / 20 || 1;
    return {
      width, height: 210, series, bands,
      scales: { x: { time: false, range: [first - air, last + air] } },
      axes: [{ ...axis, splits: chart.places.length <= 8 ? () => chart.places : undefined }, { ...axis, size: 56, values: (self, splits) => splits.map((split) => `${+split.toFixed(6)}${chart.unit === "%" ? " %" : ""}`) }],
      cursor: { drag: { x: false, y: false } },
    };
  }
  function draw(figure, chart) {
    drawn.get(figure)?.destroy();
    const columns = [chart.places];
    for (const line of chart.lines) columns.push(line.value, line.high, line.low);
    if (chart.limit !== null) columns.push(chart.places.map(() => chart.limit));
    const plot = new uPlot(optionsOf(chart, figure.clientWidth), columns, figure);
    plot.root.setAttribute("aria-hidden", "true");
    drawn.set(figure, plot);
  }
  const charts = new Map();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting && !drawn.has(entry.target)) draw(entry.target, charts.get(entry.target));
  }, { rootMargin: "200px" });
  for (const box of all(".charts")) {
    for (const chart of data[box.dataset.series]) {
      const caption = make("figcaption", {}, make("small", {}, chart.attack || "Usefulness"), make("strong", {}, chart.title));
      if (chart.unit) caption.append(`, in ${chart.unit}`);
      const figure = make("figure", { className: "chart" }, caption);
      charts.set(figure, chart);
      box.append(figure);
      watcher.observe(figure);
    }
  }
  const redraw = () => { for (const figure of drawn.keys()) if (figure.clientWidth) draw(figure, charts.get(figure)); };
  let waiting = 0;
  window.addEventListener("resize", () => { window.clearTimeout(waiting); waiting = window.setTimeout(redraw, 150); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // Two scans side by side: the limits of both, as their own tables have them, and the comparison where it was made.
  const chosen = { old: document.getElementById("old"), new: document.getElementById("new") };
  const pairs = all("main .pair");
  const runOf = (number) => document.getElementById(`run-${number}`);
  const rowsOf = (run) => new Map(all(".limits tbody tr", run).map((row) => [row.dataset.limit, row]));
  const cellOf = (row, side) => {
    const cell = make("td", {});
    cell.dataset.label = side;
    if (!row) {
      cell.append("not applicable");
      return cell;
    }
    const [, , outcome, , measured, interval] = row.cells;
    cell.append(outcome.firstElementChild.cloneNode(true), make("br", {}), measured.textContent || "no number");
    if (interval.textContent) cell.append(make("br", {}), make("small", {}, interval.textContent));
    return cell;
  };
  function compareScans() {
    const sides = [runOf(chosen.old.value), runOf(chosen.new.value)];
    const rows = sides.map(rowsOf);
    const body = make("tbody", {});
    for (const limit of new Set(rows.flatMap((side) => [...side.keys()]))) {
      const any = rows[0].get(limit) || rows[1].get(limit);
      const name = make("th", { scope: "row" }, any.cells[1].textContent, make("br", {}), make("small", {}, `${any.cells[0].textContent}, ${any.cells[3].textContent}`));
      body.append(make("tr", {}, name, ...rows.map((side, place) => cellOf(side.get(limit), sides[place].dataset.name))));
    }
    const heads = ["Limit", ...sides.map((side) => side.dataset.name)].map((text) => make("th", { scope: "col" }, text));
    const table = make("table", { className: "sides stack" }, make("thead", {}, make("tr", {}, ...heads)), body);
    document.getElementById("side-by-side").replaceChildren(make("h3", {}, "Limits of both scans"), table);
    let tested = false;
    for (const pair of pairs) {
      const shown = pair.dataset.old === chosen.old.value && pair.dataset.new === chosen.new.value;
      pair.hidden = !shown;
      tested = tested || shown;
    }
    const [one, other] = [chosen.old, chosen.new].map((select) => select.selectedOptions[0].dataset.series);
    const alike = one !== "" && one === other;
    document.getElementById("unalike").hidden = alike;
    document.getElementById("untested").hidden = !alike || tested;
  }
  const choose = (old, later) => { chosen.old.value = old; chosen.new.value = later; };
  for (const select of Object.values(chosen)) select.addEventListener("change", () => { window.location.hash = `compare-${chosen.old.value}-${chosen.new.value}`; });
  document.querySelector(".choice").hidden = false;
  document.querySelector(".choice").addEventListener("submit", (event) => event.preventDefault());

  // The part that the address names: a panel, a scan, a series, or two scans.
  function follow() {
    const anchor = decodeURIComponent(window.location.hash.slice(1)) || "scans";
    const two = anchor.match(/^compare-(\d+)-(\d+)$/);
    if (two && runOf(two[1]) && runOf(two[2])) choose(two[1], two[2]);
    const target = document.getElementById(two ? "compare" : anchor) || document.getElementById("scans");
    const panel = target.closest(".panel") || document.getElementById("scans");
    for (const other of panels) other.classList.toggle("open", other === panel);
    for (const run of runs) run.classList.toggle("open", run === target);
    for (const link of links) {
      const current = link.hash === `#${panel.id}` || (panel.id === "runs" && link.hash === "#scans");
      if (current) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (panel.id === "compare") compareScans();
    if (window.location.hash) (target.querySelector(".title") || target).focus({ preventScroll: true });
    if (target === panel || panel.id === "runs") window.scrollTo(0, 0);
    else target.scrollIntoView();
  }
  const first = pairs[0];
  if (first) choose(first.dataset.old, first.dataset.new);
  else if (runs.length > 1) choose(runs[1].id.slice(4), runs[0].id.slice(4));
  window.addEventListener("hashchange", follow);
  follow();
  // The browser goes to the place that the address names once the page is loaded.
  window.addEventListener("load", follow);
})();
