// Buttons that copy a text, where the browser lets a page do that.
function offerCopies() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = false;
    button.onclick = async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copies).textContent);
      button.textContent = "Copied";
    };
  }
}

offerCopies();
document.addEventListener("swapped", offerCopies);
