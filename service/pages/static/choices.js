// Who writes a number beside a choice has made it, unless the one that is made takes that number, too.
document.addEventListener("input", ({ target }) => {
  const choice = target.matches("input[type=number]") && target.closest(".choice")?.querySelector("[type=radio]");
  if (!choice) return;
  const made = document.querySelector(`[type=radio][name="${CSS.escape(choice.name)}"]:checked`);
  if (!made?.dataset.numbers?.split(" ").includes(target.name)) choice.checked = true;
});
