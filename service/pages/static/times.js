// Times in the browser's own language; what the server wrote is in UTC.
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60]];
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function say() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const seconds = (Date.now() - at) / 1000;
    const [unit, length] = UNITS.find((each) => seconds >= each[1]) ?? ["minute", 60];
    time.textContent = ago.format(-Math.floor(seconds / length), unit);
    time.title = whole.format(at);
  }
}

say();
document.addEventListener("swapped", say);
