// Filters over tables, rows that open, and clauses among the search results. Pages can be read without it.
"use strict";

const NAMES = ["spec", "level", "party", "clause", "verdict"];

function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

// What a row says of itself, or the rows that it stands among.
function said(row, name) {
  return row.dataset[name] ?? row.parentElement.dataset[name] ?? "";
}

function matches(row, form) {
  const titles = [...row.querySelectorAll("[title]")].map((part) => part.title);
  const group = row.parentElement.querySelector(".group-of-rows button")?.textContent || "";
  const text = [row.textContent, group, ...titles].join(" ").toLowerCase();
  return wordsOf(form.words.value).every((word) => text.includes(word)) &&
    NAMES.every((name) => !form[name]?.value || said(row, name).split("|").includes(form[name].value));
}

function filterRows(form, table) {
  const all = [...table.tBodies[0].rows];
  const stay = all.filter((row) => matches(row, form));
  for (const row of all) row.hidden = !stay.includes(row);
  return `${stay.length} of ${all.length} rows`;
}

function open(body, yes) {
  body.querySelector("button").setAttribute("aria-expanded", String(yes));
  for (const row of body.querySelectorAll("tr.row")) row.hidden = !yes || row.dataset.left === "out";
}

function isOpen(body) {
  return body.querySelector("button").getAttribute("aria-expanded") === "true";
}

// Groups stay that have a row which stays; they are open if a filter chose among their rows.
function filterGroups(form, table) {
  const chosen = [...form.elements].some((field) => field.name && field.value);
  let left = 0, all = 0;
  for (const body of table.tBodies) {
    const rows = [...body.querySelectorAll("tr.row")];
    const stay = rows.filter((row) => matches(row, form));
    for (const row of rows) row.dataset.left = stay.includes(row) ? "in" : "out";
    body.hidden = !stay.length;
    open(body, chosen);
    left += stay.length;
    all += rows.length;
  }
  return `${left} of ${all} ${table.dataset.rows}`;
}

function remember(form) {
  const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  history.replaceState(null, "", `${location.pathname}${given.size ? `?${given}` : ""}${location.hash}`);
}

document.querySelectorAll("form.filters").forEach((form) => {
  const table = form.parentElement.querySelector("table.filtered");
  const filter = table.classList.contains("opens") ? filterGroups : filterRows;
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
  const body = row && row.closest("table.opens tbody");
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
