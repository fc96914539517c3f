// Who writes a number beside a choice has made it.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".choice input[type=number]")) target.closest(".choice").querySelector("[type=radio]").checked = true;
});
