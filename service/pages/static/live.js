// Keeps the parts of a page that change up to date: loads the page again and puts its [data-live] parts in the place of
// those that are shown. It stops when none is left that wants it, and says so while the service does not answer.
const PAUSE = 1500;
const LONGEST = 15000;
let pause = PAUSE;

const isWanted = () => document.querySelector("[data-live=on]") !== null;

function tell(lost) {
  const note = document.getElementById("lost");
  if (note) note.hidden = !lost;
}

function swap(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(old.id);
    // What somebody is about to press stays where it is.
    if (next && next.outerHTML !== old.outerHTML && !old.contains(document.activeElement)) old.replaceWith(next);
  }
  document.title = fresh.title;
  document.dispatchEvent(new CustomEvent("swapped"));
}

async function look() {
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { redirect: "error", cache: "no-store", signal: AbortSignal.timeout(LONGEST) });
    if (!answer.ok && answer.status !== 404) throw new Error(String(answer.status));
    swap(new DOMParser().parseFromString(await answer.text(), "text/html"));
    pause = PAUSE;
    tell(false);
  } catch {
    pause = Math.min(LONGEST, pause * 1.5);
    tell(true);
  }
}

async function follow() {
  while (isWanted()) {
    await new Promise((done) => setTimeout(done, pause));
    await look();
  }
}

follow();
