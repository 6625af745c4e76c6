// Filters over tables, rows that open, and clauses among the search results. Pages can be read without it.
"use strict";

const NAMES = ["spec", "level", "party", "fate", "clause"];

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

function matches(row, form) {
  const titles = [...row.querySelectorAll("[title]")].map((part) => part.title);
  const text = [row.textContent, row.dataset.words || "", ...titles].join(" ").toLowerCase();
  return wordsOf(form.words.value).every((word) => text.includes(word)) &&
    NAMES.every((name) => !form[name]?.value || (row.dataset[name] || "").split("|").includes(form[name].value));
}

// A column stays where it is asked for and has something in the rows that stay; tables without verdicts keep theirs.
function shownColumns(table, form, rows) {
  return [...table.tHead.rows[0].cells].map((cell, number) =>
    ["environment", "group"].every((name) => !form[name]?.value || !cell.dataset[name] || cell.dataset[name].split("|").includes(form[name].value)) &&
    (!cell.dataset.environment || !rows.length || rows.some((row) => row.cells[number].dataset.verdict)));
}

function filterRows(form, table) {
  const all = [...table.tBodies[0].rows];
  const rows = all.filter((row) => matches(row, form));
  const columns = shownColumns(table, form, rows);
  const verdict = form.verdict?.value;
  const stay = new Set(rows.filter((row) => !verdict || [...row.cells].some((cell, number) => columns[number] && cell.dataset.verdict === verdict)));
  for (const row of table.rows) [...row.cells].forEach((cell, number) => { cell.hidden = !columns[number]; });
  for (const row of all) row.hidden = !stay.has(row);
  return `${stay.size} of ${all.length} rows`;
}

function open(body, yes) {
  body.querySelector("button").setAttribute("aria-expanded", String(yes));
  for (const row of body.querySelectorAll("tr.class")) row.hidden = !yes || row.dataset.left === "out";
}

function isOpen(body) {
  return body.querySelector("button").getAttribute("aria-expanded") === "true";
}

// Packages stay that have a class which stays; they are open where a filter chose among their classes.
function filterPackages(form, table) {
  const verdict = form.verdict.value;
  const chosen = [...form.elements].some((field) => field.name && field.value);
  let left = 0, all = 0;
  for (const body of table.tBodies) {
    const rows = [...body.querySelectorAll("tr.class")];
    const stay = rows.filter((row) => matches(row, form) && (!verdict || row.dataset.verdict === verdict));
    for (const row of rows) row.dataset.left = stay.includes(row) ? "in" : "out";
    body.hidden = !stay.length;
    open(body, chosen);
    left += stay.length;
    all += rows.length;
  }
  return `${left} of ${all} classes`;
}

function remember(form) {
  const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `${location.pathname}${given.size ? `?${given}` : ""}${location.hash}`);
}

document.querySelectorAll("form.filters").forEach((form) => {
  const table = form.parentElement.querySelector("table.filtered");
  const filter = table.classList.contains("packages") ? filterPackages : filterRows;
  const apply = () => { form.count.value = filter(form, table); };
  for (const [name, value] of new URLSearchParams(location.search)) if (form[name]) form[name].value = value;
  form.addEventListener("input", () => { apply(); remember(form); });
  form.addEventListener("submit", (event) => event.preventDefault());
  apply();
  table.addEventListener("click", (event) => {
    const body = event.target.closest("button")?.closest("tbody");
    if (body) open(body, !isOpen(body));
  });
});

function showTarget() {
  const row = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const body = row && row.closest("table.packages.filtered tbody");
  if (!body) return;
  open(body, true);
  row.scrollIntoView();
}
addEventListener("hashchange", showTarget);
showTarget();

// What a query finds beside Sphinx's own results: pages by the words that lead to them, and clauses.
function foundClauses(query) {
  const words = wordsOf(query);
  const parts = Object.entries(window.SYNONYMS).filter(([phrase]) => query.includes(phrase)).flatMap(([, ids]) => ids);
  return window.CLAUSES.filter(([id, text]) =>
    words.every((word) => `${id} ${text}`.toLowerCase().includes(word)) || parts.some((part) => id.includes(part)));
}

function foundPages(query) {
  const words = wordsOf(query);
  return window.PAGES.filter(([known]) => words.every((word) => known.split(" ").includes(word)));
}

function listed(title, entries) {
  const section = document.createElement("section"), head = document.createElement("h2"), list = document.createElement("ul");
  head.textContent = title;
  for (const [address, name, text] of entries) {
    const item = document.createElement("li"), link = document.createElement("a"), said = document.createElement("p");
    link.href = address; link.textContent = name; said.textContent = text;
    item.append(link, said);
    list.append(item);
  }
  section.append(head, list);
  return section;
}

function search() {
  const place = document.getElementById("search-results");
  const query = (new URLSearchParams(location.search).get("q") || "").toLowerCase().trim();
  if (!place || !window.CLAUSES || !query) return;
  const pages = foundPages(query).map(([, address, name]) => [address, name, ""]);
  const clauses = foundClauses(query).map(([id, text, page]) => [page, id, text]);
  const found = document.createElement("div");
  found.id = "search-clauses";
  if (pages.length) found.append(listed(pages.length === 1 ? "1 page" : `${pages.length} pages`, pages));
  if (clauses.length) found.append(listed(clauses.length === 1 ? "1 clause" : `${clauses.length} clauses`, clauses.slice(0, 20)));
  if (found.children.length) place.before(found);
}
search();
