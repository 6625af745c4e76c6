// Filters over tables, and clauses among the search results. Pages can be read without it.
"use strict";

function matches(element, form) {
  const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = element.textContent.toLowerCase() + " " + [...element.querySelectorAll("[title]")].map((part) => part.title.toLowerCase()).join(" ");
  return words.every((word) => text.includes(word)) &&
    ["spec", "level", "party", "fate"].every((name) => !form[name] || !form[name].value || element.dataset[name] === form[name].value);
}

// A column stays where it is asked for and has something in the rows that stay; tables without verdicts keep theirs.
function shownColumns(table, form, rows) {
  return [...table.tHead.rows[0].cells].map((cell, number) =>
    ["environment", "group"].every((name) => !form[name]?.value || !cell.dataset[name] || cell.dataset[name].split("|").includes(form[name].value)) &&
    (!cell.dataset.environment || !rows.length || rows.some((row) => row.cells[number].dataset.verdict)));
}

function filter(form, table) {
  const rows = [...table.tBodies[0].rows].filter((row) => matches(row, form));
  const columns = shownColumns(table, form, rows);
  const verdict = form.verdict?.value;
  const stay = new Set(rows.filter((row) => !verdict || [...row.cells].some((cell, number) => columns[number] && cell.dataset.verdict === verdict)));
  for (const row of table.rows) [...row.cells].forEach((cell, number) => { cell.hidden = !columns[number]; });
  for (const row of table.tBodies[0].rows) row.hidden = !stay.has(row);
  form.count.value = `${stay.size} of ${table.tBodies[0].rows.length} rows`;
}

document.querySelectorAll("form.filters").forEach((form) => {
  const table = form.parentElement.querySelector("table.filtered");
  const given = new URLSearchParams(location.search);
  for (const [name, value] of given) if (form[name]) form[name].value = value;
  form.addEventListener("input", () => filter(form, table));
  form.addEventListener("submit", (event) => event.preventDefault());
  filter(form, table);
});

function clauseResults() {
  const place = document.getElementById("search-results");
  const words = (new URLSearchParams(location.search).get("q") || "").toLowerCase().split(/\s+/).filter(Boolean);
  if (!place || !window.CLAUSES || !words.length) return;
  const found = window.CLAUSES.filter(([id, text]) => words.every((word) => `${id} ${text}`.toLowerCase().includes(word)));
  if (!found.length) return;
  const section = document.createElement("section");
  section.id = "search-clauses";
  const head = document.createElement("h2");
  head.textContent = found.length === 1 ? "1 clause" : `${found.length} clauses`;
  const list = document.createElement("ul");
  for (const [id, text, page] of found.slice(0, 20)) {
    const item = document.createElement("li"), link = document.createElement("a"), said = document.createElement("p");
    link.href = page; link.textContent = id; said.textContent = text;
    item.append(link, said);
    list.append(item);
  }
  section.append(head, list);
  place.before(section);
}
clauseResults();
