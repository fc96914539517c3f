// Large files go in parts by the resumable uploads of the API (TUS), with a bar and a pause: what has arrived counts, and
// the same file, picked again after a broken line or a closed page, goes on where it was. Small ones go as the form that
// they are in, but the page stays: what is refused is said there, and the file and the other fields stand as they were.
const VERSION = { "Tus-Resumable": "1.0.0" };
const MARKED = 1 << 20; // bytes of the beginning and of the end that tell a file from others, as the command line has it
const LONGEST = 30000;
// Fields of the form that are options of the format, with what the call makes of them (service/pages/forms.py).
const OPTIONS = {
  encoding: String,
  delimiter: String,
  header: (said) => said === "true",
  decimal: String,
  thousands: String,
  quote: (said) => (said === "none" ? null : said),
  escape: String,
  trim: (said) => said === "true",
  missing: (said) => said.split(",").map((word) => word.trim()).filter(Boolean),
};
const FIELDS = {
  "header true": "“First line”: names the columns",
  "header false": "“First line”: is a row",
  header: "“First line”",
  decimal: "“Decimal sign”",
  thousands: "“Separator of thousands”",
  missing: "“Words for missing values”",
  encoding: "“Encoding”",
  delimiter: "“Delimiter”",
  "quote null": "“Quotes”: are characters like others",
  quote: "“Quotes”",
  escape: "“Backslashes”",
  trim: "“Blanks around values”",
};
const form = document.getElementById("upload-form");
const bar = document.getElementById("upload-bar");
const pause = document.getElementById("upload-pause");
const told = document.getElementById("upload-told");
const share = new Intl.NumberFormat(document.documentElement.dataset.numbers, { style: "percent", maximumFractionDigits: 1, roundingMode: "floor" });
let stopped = null; // what ends the part that is on its way
let goOn = null;

const root = new URL(form.dataset.root, location.href);
const say = (text) => { told.textContent = text; };
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

class Refused extends Error {}

async function call(method, path, headers = {}, body = undefined, signal = undefined) {
  const sent = { ...VERSION, "X-CSRF-Token": form.elements.form_token.value, ...headers };
  const answer = await fetch(new URL(path, root), { method, headers: sent, body, signal, redirect: "error", cache: "no-store" });
  if (answer.ok || answer.status === 409 || answer.status === 404) return answer;
  const problem = await answer.json().catch(() => null);
  if (answer.status < 500 && answer.status !== 429) throw new Refused(problem?.detail ?? `the service answered ${answer.status}`);
  throw new Error(String(answer.status));
}

async function fingerprint(file) {
  if (!crypto.subtle) return `${file.lastModified}`; // without TLS browsers have none
  const parts = [file.slice(0, MARKED), file.slice(Math.max(0, file.size - MARKED))];
  const digest = await crypto.subtle.digest("SHA-256", await new Blob(parts).arrayBuffer());
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function metadataOf(file, mark) {
  const said = Object.entries(OPTIONS).filter(([each]) => form.elements[each].value !== "")
    .map(([each, made]) => [each, made(form.elements[each].value)]);
  const options = said.length ? JSON.stringify(Object.fromEntries(said)) : "";
  const given = { filename: file.name, name: form.elements.name.value, format: form.elements.format.value, options, fingerprint: mark };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== ""));
}

const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));

async function begin(file, metadata) {
  const listed = await (await call("GET", "uploads?status=receiving&limit=100")).json();
  const isSame = (each) => each.bytes === file.size && Object.keys(each.metadata).length === Object.keys(metadata).length
    && Object.entries(metadata).every(([key, value]) => each.metadata[key] === value);
  const found = listed.items.find(isSame);
  if (found) return found;
  const pairs = Object.entries(metadata).map(([key, value]) => `${key} ${base64(value)}`).join(",");
  const answer = await call("POST", "uploads", { "Upload-Length": String(file.size), "Upload-Metadata": pairs });
  const made = await answer.json();
  if (!answer.ok) throw new Refused(made.detail);
  return made;
}

function show(file, received) {
  bar.value = file.size ? received / file.size : 1;
  say(`${share.format(bar.value)} of ${file.name} has arrived.`);
}

async function offsetOf(id) {
  const answer = await call("HEAD", `uploads/${id}`);
  if (answer.status === 404) throw new Refused("the upload is gone: it was deleted, or has expired");
  return Number(answer.headers.get("Upload-Offset"));
}

async function send(file, upload) {
  let offset = upload.received;
  let resting = 1000;
  while (offset < file.size) {
    if (goOn) await goOn.promise;
    show(file, offset);
    stopped = new AbortController();
    try {
      const part = file.slice(offset, offset + Number(form.dataset.piece));
      const headers = { "Content-Type": "application/offset+octet-stream", "Upload-Offset": String(offset) };
      const answer = await call("PATCH", `uploads/${upload.id}`, headers, part, stopped.signal);
      offset = answer.ok ? Number(answer.headers.get("Upload-Offset")) : await offsetOf(upload.id);
      resting = 1000;
    } catch (error) {
      if (error instanceof Refused) throw error;
      if (error.name !== "AbortError") {
        say("The line is broken, or the service is away. It is tried again; what has arrived is kept.");
        await wait(resting);
        resting = Math.min(LONGEST, 2 * resting);
      }
      offset = await offsetOf(upload.id).catch((again) => { if (again instanceof Refused) throw again; return offset; });
    }
  }
  bar.removeAttribute("value");
  pause.hidden = true;
}

async function finish(id) {
  say("All of it has arrived, and is being read.");
  while (true) {
    const answer = await call("GET", `uploads/${id}`);
    const upload = await answer.json();
    if (!answer.ok) throw new Refused(upload.detail);
    if (upload.status === "failed") throw new Refused(upload.error?.detail ?? "the file cannot be read");
    if (upload.dataset_id) {
      await call("DELETE", `uploads/${id}`).catch(() => null); // it is struck off when it expires, then
      return upload.dataset_id;
    }
    await wait(400);
  }
}

function toggle() {
  if (goOn) {
    goOn.resolve();
    goOn = null;
    pause.textContent = "Pause";
  } else {
    goOn = Promise.withResolvers();
    pause.textContent = "Go on";
    stopped?.abort();
    say("Stopped. What has arrived is kept, also if this page is closed: pick the same file again then.");
  }
}

// As the page says it when the service shows the form again (service/pages/advice.py).
function inWordsOfTheForm(text) {
  return text.replace(/another one by option encoding \(such as utf-16, or cp1252 of many Windows files\)/, "another one: choose it under “Encoding” (many Windows files are cp1252)")
    .replaceAll("say null for option quote", "say under “Quotes” that they are characters like others")
    .replace(String.raw`"\"" for option quote`, "that they are \"")
    .replaceAll(String.raw`say "\\" for option escape`, "say so under “Backslashes”")
    .replace("option delimiter says otherwise", "if that is wrong, upload the file with the right “Delimiter”")
    .replace(new RegExp(`\\boptions? (${Object.keys(FIELDS).join("|")})\\b`, "g"), (_, option) => FIELDS[option]);
}

function showField(option) {
  if (!option) return;
  form.querySelector("details").open = true;
  form.elements[option].focus();
}

const warn = (event) => event.preventDefault();

// Returns where the data set is, or what the service says instead: a part of the page that it would have shown.
async function sendForm() {
  const answer = await fetch(form.action, { method: "POST", body: new FormData(form), cache: "no-store" });
  if (answer.ok && answer.redirected) return answer.url;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const wrong = fresh.getElementById("upload-wrong");
  if (wrong) {
    document.getElementById("upload-wrong").replaceWith(wrong);
    showField(wrong.dataset.option);
    return null;
  }
  if (answer.status === 401) throw new Refused("your session has ended: sign in in another tab, and press the button again");
  throw new Refused(fresh.querySelector("h1 + p")?.textContent ?? `the service answered ${answer.status}`);
}

async function uploadSmall(file) {
  const button = form.querySelector("button:not([type=button])");
  button.disabled = true;
  told.hidden = false;
  document.getElementById("upload-wrong").hidden = true;
  say(`${file.name} is on its way.`);
  try {
    const place = await sendForm();
    if (place) {
      location.assign(place);
      return;
    }
    say("");
  } catch (error) {
    say(error instanceof Refused ? `It cannot be uploaded: ${error.message}` : "The service does not answer. Press the button again: the file is still picked.");
  }
  button.disabled = false;
}

async function upload(file) {
  const button = form.querySelector("button:not([type=button])");
  button.disabled = true;
  for (const each of [bar, pause, told]) each.hidden = false;
  addEventListener("beforeunload", warn);
  say("Looking at the file.");
  try {
    const made = await begin(file, metadataOf(file, await fingerprint(file)));
    await send(file, made);
    const dataset = await finish(made.id);
    removeEventListener("beforeunload", warn);
    location.assign(new URL(`ui/datasets/${dataset}`, root));
  } catch (error) {
    if (error instanceof Refused) showField(Object.keys(OPTIONS).find((each) => error.message.includes(`option ${each}`)));
    say(error instanceof Refused ? `It cannot be uploaded: ${inWordsOfTheForm(error.message)}.` : "The service does not answer. What has arrived is kept: pick the same file again.");
    bar.hidden = pause.hidden = true;
    button.disabled = false;
    removeEventListener("beforeunload", warn);
  }
}

form.addEventListener("submit", (event) => {
  const file = form.elements.file.files[0];
  if (!file) return;
  event.preventDefault();
  if (file.size < Number(form.dataset.least)) uploadSmall(file);
  else upload(file);
});
pause.addEventListener("click", toggle);

// A file may be dropped anywhere on the page; it then stands in the field, as if it had been picked there.
const card = form.closest(".card");
document.getElementById("drop-help").hidden = false;
addEventListener("dragover", (event) => {
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  card.classList.add("over");
});
addEventListener("dragleave", (event) => { if (event.relatedTarget === null) card.classList.remove("over"); });
addEventListener("drop", (event) => {
  card.classList.remove("over");
  if (!event.dataTransfer.types.includes("Files")) return;
  event.preventDefault();
  told.hidden = false;
  if (form.querySelector("button:not([type=button])").disabled) return;
  if (event.dataTransfer.files.length !== 1) {
    say("One file at a time, please: a folder goes as an archive.");
    return;
  }
  form.elements.file.files = event.dataTransfer.files;
  say(`${event.dataTransfer.files[0].name} is picked.`);
  form.querySelector("button").focus();
});
