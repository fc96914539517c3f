// Checks what is chosen for a training a moment after it was, and puts what comes of it in its place.
const form = document.getElementById("choices");
let waiting = 0;
let asked = 0;
let changes = 0;
let checked = 0; // which of the changes the page on the right has seen

function put(old, fresh) {
  if (old.open) fresh.open = true; // what somebody has unfolded stays so
  for (const each of old.querySelectorAll("details[open]")) {
    const same = [...fresh.querySelectorAll("details")].find((other) => other.querySelector("summary").textContent === each.querySelector("summary").textContent);
    if (same) same.open = true;
  }
  old.replaceWith(fresh);
}

async function check() {
  const mine = ++asked;
  const seen = changes;
  const address = new URL(location.href);
  address.search = new URLSearchParams(new FormData(form));
  try {
    const answer = await fetch(address, { redirect: "error", cache: "no-store" });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (mine !== asked || !fresh.getElementById("check")) return;
    for (const id of ["tell", "labels", "must", "sure", "parameters", "check"]) {
      const old = document.getElementById(id);
      const here = document.activeElement;
      if (!old.contains(here)) put(old, fresh.getElementById(id));
      else if (here.matches("[type=radio], [type=checkbox]")) {
        put(old, fresh.getElementById(id));
        form.querySelector(`[name="${CSS.escape(here.name)}"][value="${CSS.escape(here.value)}"]`)?.focus();
      }
    }
    checked = seen;
    history.replaceState(null, "", address);
    document.dispatchEvent(new CustomEvent("swapped"));
  } catch {
    // The button is still there.
  }
}

form.addEventListener("input", () => {
  changes++;
  clearTimeout(waiting);
  waiting = setTimeout(check, 350);
});
// Who trains at once after a change trains what the fields say now, and not what was checked before.
document.addEventListener("submit", async (event) => {
  if (!event.target.closest("#check") || checked === changes) return;
  event.preventDefault();
  clearTimeout(waiting);
  await check();
  if (checked === changes) document.querySelector("#check form")?.requestSubmit();
  else form.requestSubmit(); // the service was not to be had: the page is loaded anew, with what was chosen
});
document.getElementById("look").hidden = true;
