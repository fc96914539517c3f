// Scrolling through all rows of a data set: as tall as all of them would be, and holding those that can be seen. Others
// come from the service, some at a time, as the page has them. Without this script they come page by page.
const MOST_HEIGHT = 15e6; // pixels, which all browsers can scroll; where all rows would be taller, a step is more of them
const MARGIN = 10; // rows above and below those that can be seen
const KEPT = 3000;
const box = document.getElementById("all-rows");
const total = Number(box.dataset.total);
const body = box.querySelector("tbody");
const known = new Map(); // by number
let top = null; // the number of the first row that is there
let resting = 0;
let asking = false;

const address = (first) => {
  const found = new URL(box.dataset.rows, location.href);
  found.searchParams.set("from", first);
  return found;
};

function keep(first, rows) {
  rows.forEach((row, place) => {
    row.ariaRowIndex = first + place + 2; // the head is the first one
    known.set(first + place, row);
  });
  for (const number of known.keys()) {
    if (known.size <= KEPT) break;
    if (Math.abs(number - first) > KEPT / 4) known.delete(number);
  }
}

function spacer() {
  const row = document.createElement("tr");
  row.className = "room";
  row.ariaHidden = "true";
  row.append(document.createElement("td"));
  return row;
}

function waiting(number) {
  const row = document.createElement("tr");
  row.className = "waiting";
  const head = Object.assign(document.createElement("th"), { scope: "row", className: "num", textContent: number.toLocaleString(document.documentElement.dataset.numbers) });
  const cell = Object.assign(document.createElement("td"), { colSpan: columns - 1, textContent: "…" });
  row.append(head, cell);
  return row;
}

// Where a row lies: between the place that has been scrolled to and the number of the first row that is seen there.
const numberAt = (scrolled) => (full === exact ? Math.floor(scrolled / height)
  : Math.round((scrolled / Math.max(1, full - box.clientHeight)) * Math.max(0, total - seen())));
const placeOf = (number) => (full === exact ? number * height
  : (number / Math.max(1, total - seen())) * (full - box.clientHeight));
const seen = () => Math.max(1, Math.floor((box.clientHeight - head) / height));

// Rows that stay are not touched: the browser has only those to lay out that come.
function place(rows) {
  const wanted = new Set(rows);
  for (const each of [...body.children]) if (each !== before && each !== after && !wanted.has(each)) each.remove();
  let last = before;
  for (const row of rows) {
    if (last.nextSibling !== row) last.after(row);
    last = row;
  }
}

function draw() {
  const first = Math.min(Math.max(0, total - 1), numberAt(box.scrollTop));
  const from = Math.max(0, first - MARGIN);
  const to = Math.min(total, first + seen() + MARGIN + 2);
  const isWhole = from === top && body.querySelector(".waiting") === null;
  if (!isWhole) {
    top = from;
    const rows = [];
    for (let number = from; number < to; number += 1) rows.push(known.get(number) ?? waiting(number));
    const above = full === exact ? from * height : Math.max(0, box.scrollTop - (first - from) * height);
    before.firstChild.style.height = `${above}px`;
    after.firstChild.style.height = `${Math.max(0, full - above - rows.length * height)}px`;
    place(rows);
  }
  ask(from, to);
  clearTimeout(resting);
  resting = setTimeout(() => {
    const here = new URL(location.href);
    here.searchParams.set("from", first);
    history.replaceState(null, "", here);
  }, 400);
}

async function ask(from, to) {
  let missing = from;
  while (missing < to && known.has(missing)) missing += 1;
  if (missing >= to || asking) return;
  asking = true;
  try {
    const answer = await fetch(address(missing), { redirect: "error", cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const fresh = new DOMParser().parseFromString(`<table>${await answer.text()}</table>`, "text/html");
    keep(missing, [...fresh.querySelectorAll("tr")].map((row) => document.adoptNode(row)));
    document.getElementById("lost").hidden = true;
  } catch {
    document.getElementById("lost").hidden = false;
    await new Promise((done) => setTimeout(done, 3000));
  }
  asking = false;
  top = null;
  draw();
}

function go(number) {
  box.scrollTop = placeOf(Math.min(total - 1, Math.max(0, number)));
  draw();
}

const rows = [...body.children];
const columns = rows[0]?.children.length ?? 0;
const first = Number(box.dataset.first);
const head = box.querySelector("thead").offsetHeight;
keep(first, rows);
for (const each of box.querySelectorAll("thead th")) each.style.width = `${each.offsetWidth}px`;
const wide = box.querySelector("table").offsetWidth;
box.querySelector("table").style.width = `${wide}px`;
const isLong = total > rows.length;
if (isLong) box.classList.add("endless");
const height = rows[0]?.getBoundingClientRect().height ?? 1;
const exact = total * height;
const full = Math.min(exact, MOST_HEIGHT);
const before = spacer();
const after = spacer();

if (isLong) {
  box.querySelector("table").ariaRowCount = total + 1;
  for (const each of document.querySelectorAll("[data-leaf]")) each.hidden = true;
  body.replaceChildren(before, ...rows, after);
  before.firstChild.style.height = `${placeOf(first)}px`;
  after.firstChild.style.height = `${full}px`;
  go(first);
  let drawing = false;
  box.addEventListener("scroll", () => {
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => { drawing = false; draw(); });
  });
  document.getElementById("go").addEventListener("submit", (event) => {
    event.preventDefault();
    go(Number(event.target.elements.from.value));
  });
} else {
  box.querySelector("table").style.width = "";
}
