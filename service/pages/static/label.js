// Keys for what stands on buttons: whoever labels many rows has his hands on the keyboard. They can be switched off,
// as single letters are also what some people speak or type elsewhere.
const OFF = "prefsvm-keys-off";
let leaving = false;

function isTyping(target) {
  return target.closest("input:not([type=checkbox], [type=radio]), textarea, select") !== null;
}

document.addEventListener("keydown", (event) => {
  if (!document.getElementById("keys")?.checked || leaving || event.repeat) return;
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const key = event.key.toLowerCase();
  const button = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key && each.checkVisibility());
  if (!button) return;
  event.preventDefault();
  button.click();
});
// Another press while the next row is on its way would be an answer to a row that nobody has seen.
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented) return; // answers.js has it
  if (leaving) event.preventDefault();
  leaving = true;
});
addEventListener("pageshow", () => { leaving = false; });

// Again after a part of the page was put in the place of another: the rows of an audit come when they are drawn.
function offer() {
  const box = document.getElementById("keys");
  if (!box) return;
  box.closest(".keys").hidden = false;
  box.checked = localStorage.getItem(OFF) === null;
  box.onchange = () => {
    if (box.checked) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "yes");
  };
}

offer();
document.addEventListener("swapped", offer);
