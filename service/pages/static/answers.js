// Answers of the page to label, without loading it again for each: they go by the calls of the API (POST /feedback, and
// DELETE takes one back), and the next row is there already. Only when all rows of the page are done are others asked
// for, and they alone. What a call refuses is sent as the form that it is: the page of the service then says why.
const LONGEST = 15000;
const asked = () => document.getElementById("asked");
const root = new URL(asked().dataset.root, location.href);
const count = document.getElementById("given");
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
let rows = [...asked().querySelectorAll(".one")]; // that have no answer, the one that is shown first
let skipped = Number(asked().dataset.skip);
let last = null; // what Undo takes back
let busy = false; // another press meanwhile would be an answer to a row that nobody has seen

async function call(method, path, form, headers = {}, body = undefined) {
  const sent = { "X-CSRF-Token": form.elements.form_token.value, ...headers };
  for (let pause = 1000; ; pause = Math.min(LONGEST, 2 * pause)) {
    const answer = await fetch(new URL(path, root), { method, headers: sent, body, redirect: "error", cache: "no-store" }).catch(() => null);
    const isLost = answer === null || answer.status >= 500 || answer.status === 429;
    document.getElementById("not-kept").hidden = !isLost;
    if (!isLost) return answer;
    await wait(pause);
  }
}

function sendAsForm(form, label) {
  if (label !== undefined) {
    const field = Object.assign(document.createElement("input"), { type: "hidden", name: "label", value: label });
    form.append(field);
  }
  for (const each of asked().querySelectorAll("[name=skip]")) each.value = skipped || "";
  form.submit();
}

function add(more) {
  const given = Number(asked().dataset.given) + more;
  asked().dataset.given = given;
  count.textContent = given.toLocaleString(document.documentElement.dataset.numbers);
  const again = document.getElementById("again");
  again.hidden = given === 0;
  again.querySelector("button").classList.toggle("second", given < Number(count.dataset.enough));
}

function tell(label) {
  const said = document.getElementById("said");
  said.hidden = label === null;
  if (label === null) return;
  said.querySelector("[role=status]").replaceChildren("Kept: ", Object.assign(document.createElement("bdi"), { className: "kept", textContent: label }), ".");
}

function show(row) {
  for (const each of asked().querySelectorAll(".one")) each.hidden = each !== row;
  const off = document.getElementById("put-off");
  off.hidden = skipped === 0;
  off.querySelector("span").textContent = skipped.toLocaleString(document.documentElement.dataset.numbers);
  for (const each of asked().querySelectorAll("a[data-key=s]")) each.hidden = skipped >= Number(asked().dataset.most);
  // Whoever uses a keyboard or listens goes on at the row; the page stays where it is unless its top is out of sight.
  const head = asked().querySelector(".one:not([hidden]) h2") ?? asked().querySelector("h2");
  head?.focus({ preventScroll: true });
  if (head && head.getBoundingClientRect().top < 0) head.scrollIntoView();
}

async function next() {
  rows.shift();
  if (rows.length > 0) {
    show(rows[0]);
    return;
  }
  const page = new URL(asked().dataset.page, location.href);
  page.searchParams.set("skip", skipped || "");
  const part = new URL(page);
  part.searchParams.set("part", "rows");
  try {
    const answer = await fetch(part, { redirect: "error", cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("asked");
    if (!answer.ok || !fresh) throw new Error(String(answer.status));
    asked().replaceWith(document.adoptNode(fresh));
  } catch {
    location.assign(page);
    return;
  }
  rows = [...asked().querySelectorAll(".one")];
  tell(last && last.label);
  document.dispatchEvent(new CustomEvent("swapped"));
  show(rows[0]);
}

async function answer(form, label) {
  const { dataset, row, drawn, once } = form.elements; // form.dataset is the field, too
  const body = JSON.stringify({ alias: form.getAttribute("data-alias"), dataset: dataset.value, numbers: [Number(row.value)], labels: [label], drawn: drawn.value });
  const kept = await call("POST", "feedback", form, { "Content-Type": "application/json", "Idempotency-Key": once.value }, body);
  if (!kept.ok) {
    sendAsForm(form, label);
    return;
  }
  last = { id: (await kept.json()).id, row: form.closest(".one"), label };
  add(1);
  tell(label);
  await next();
}

async function undo(form) {
  const gone = await call("DELETE", `feedback/${last.id}`, form);
  if (!gone.ok) {
    form.elements.feedback.value = last.id;
    sendAsForm(form);
    return;
  }
  const { row } = last;
  last = null;
  row.querySelector("[name=once]").value += "-"; // what was sent under this key is gone
  asked().insertBefore(row, rows[0] ?? document.getElementById("put-off"));
  rows.unshift(row);
  add(-1);
  tell(null);
  show(row);
}

async function alone(event, act) {
  event.preventDefault();
  if (busy) return;
  busy = true;
  await act();
  busy = false;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("#asked .ask")) alone(event, () => answer(form, event.submitter.value));
  else if (form.id === "said" && last) alone(event, () => undo(form));
});
document.addEventListener("click", (event) => {
  const later = event.target.closest("#asked a[data-key=s]");
  if (!later || event.ctrlKey || event.metaKey || event.shiftKey) return;
  alone(event, () => { skipped += 1; return next(); });
});
