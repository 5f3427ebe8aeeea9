"use strict";
// The keys of `grade mark`, and saving every answer at once; the form works without this.
(function () {
  const form = document.getElementById("mark");
  if (!form) return;
  const [said, sum, keys, line, text] = ["said", "sum", "use-keys", "line", "text"].map((id) => document.getElementById(id));
  const items = [...form.querySelectorAll("[data-key]")];
  const BUTTONS = { n: "next", s: "skip", q: "stop" };
  // Answers are saved one after the other, each with the state that the last one returned.
  let [saving, waiting, isOlder] = [Promise.resolve(), 0, false];

  function save() {
    const points = items.filter((item) => item.checked).reduce((all, item) => all + Number(item.dataset.points), 0);
    const sign = points > 0 ? "+" : "";
    sum.textContent = sign + String(Math.round(points * 1e6) / 1e6).replace("-", "\u2212");
    if (isOlder) return;
    waiting += 1;
    said.textContent = "Saving…";
    saving = saving.then(saveNow).finally(() => (waiting -= 1));
  }

  async function saveNow() {
    const fields = new URLSearchParams(new FormData(form));
    // An unfinished comment is not saved.
    fields.delete("text");
    fields.set("do", "draft");
    try {
      // Sent even if the page is closed at once. Browsers allow this only up to 64 KiB.
      const keepalive = fields.toString().length < 60000;
      const answer = await fetch(location.href, { method: "POST", body: fields, keepalive });
      const told = await answer.json();
      if (!answer.ok) {
        isOlder = answer.status === 409;
        throw new Error(told.error);
      }
      form.elements.seen.value = told.seen;
      said.textContent = "Saved";
    } catch (error) {
      said.textContent = error instanceof SyntaxError || error instanceof TypeError ? "Not saved: the server cannot be reached, or you are signed out." : error.message;
    }
  }

  const press = (name) => form.querySelector('button[name=do][value="' + name + '"]').click();

  for (const item of items) item.addEventListener("change", save);
  form.addEventListener("submit", (event) => {
    // Wait for the answer on its way: the form needs its new state.
    if (!waiting) return;
    event.preventDefault();
    const button = event.submitter;
    saving.then(() => form.requestSubmit(button));
  });
  form.querySelector(".code").addEventListener("click", (event) => {
    const number = (event.target.closest("[id^=line-]")?.id ?? "").slice("line-".length);
    // Selecting text is not a click.
    if (!number || String(getSelection())) return;
    line.value = number;
    text.focus();
  });

  document.getElementById("with-keys").hidden = false;
  // In a browser without storage, the keys are on at every page.
  const storage = (() => { try { return window.localStorage; } catch { return null; } })();
  keys.checked = storage?.getItem("keys") !== "off";
  keys.addEventListener("change", () => storage?.setItem("keys", keys.checked ? "on" : "off"));
  document.addEventListener("keydown", (event) => {
    const isWriting = event.target.matches("input:not([type=checkbox]), textarea, select");
    if (isWriting && event.key === "Escape") event.target.blur();
    if (isWriting || !keys.checked || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return;
    const item = items.find((each) => each.dataset.key === event.key);
    if (item) item.click();
    else if (event.key === "c") line.focus();
    else if (BUTTONS[event.key]) press(BUTTONS[event.key]);
    else return;
    event.preventDefault();
  });
})();
