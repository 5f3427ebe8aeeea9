"use strict";
// Handing in by drag and drop, and the server's events while it judges; the pages work without this.
(function () {
  const form = document.getElementById("hand-in-form");
  const open = document.getElementById("open");
  const said = document.getElementById("said");
  // The sentences about files that were not accepted, from before the page with the verdict was loaded.
  const before = sessionStorage.getItem("said") ?? "";
  if (form) said.textContent = before;
  sessionStorage.removeItem("said");

  // Show the state of one submission in one line, from its stream.
  function follow(id, line, problems = "") {
    const source = new EventSource("/api/submissions/" + id + "/events");
    const states = {};
    const show = () => {
      line.textContent = Object.entries(states).map(([name, text]) => name + ": " + text).join(", ");
    };
    source.addEventListener("state", (event) => {
      const answer = JSON.parse(event.data);
      for (const [name, each] of Object.entries(answer.exercises)) {
        states[name] = each.place ? "place " + each.place + " in the queue" : each.state;
      }
      show();
      if (answer.state === "done" || answer.state === "replaced") {
        source.close();
        if (problems) sessionStorage.setItem("said", problems);
        else location.hash = "ex-" + Object.keys(answer.exercises)[0];
        location.reload();
      }
    });
    source.addEventListener("place", (event) => {
      const { exercise, place } = JSON.parse(event.data);
      states[exercise] = "place " + place + " in the queue";
      show();
    });
    source.addEventListener("test", (event) => {
      const { exercise, ended, of } = JSON.parse(event.data);
      states[exercise] = ended + " of " + of + " tests";
      show();
    });
  }

  function inBase64(file) {
    return new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
      reader.onerror = () => reject(new Error("Nothing was handed in. " + file.name + " cannot be read."));
      reader.readAsDataURL(file);
    });
  }

  // A hand-in that was sent without an answer: trying again with its key hands in once.
  let [sent, key] = ["", ""];

  async function send(body) {
    if (body !== sent) [sent, key] = [body, crypto.getRandomValues(new Uint32Array(4)).join("-")];
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key };
    let answer, told;
    try {
      answer = await fetch("/api/submissions", { method: "POST", headers, body });
      told = await answer.json();
    } catch {
      throw new Error("The server did not answer. Hand in again: your files count once.");
    }
    sent = "";
    if (!answer.ok) throw new Error(told.error);
    return told;
  }

  async function handIn(list) {
    const files = {};
    try {
      for (const file of list) {
        if (file.size > Number(form.dataset.most)) throw new Error("Nothing was handed in. " + file.name + " is too large.");
        files[file.name] = await inBase64(file);
      }
      said.textContent = "Handing in…";
      const told = await send(JSON.stringify({ files }));
      const about = Object.entries(told.about ?? {}).map(([name, text]) => name + ": " + text + ".");
      const problems = Object.values(told.problems ?? {}).join(" ");
      said.textContent = ["Handed in.", ...about, problems].join(" ");
      const line = document.createElement("li");
      open.append(line);
      follow(told.id, line, problems);
    } catch (error) {
      said.textContent = error.message;
    }
  }

  if (form) {
    const chosen = document.getElementById("files");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (chosen.files.length) handIn(chosen.files);
      else said.textContent = "Choose a file first.";
    });
    form.addEventListener("dragover", (event) => {
      event.preventDefault();
      form.classList.add("over");
    });
    form.addEventListener("dragleave", () => form.classList.remove("over"));
    form.addEventListener("drop", (event) => {
      event.preventDefault();
      form.classList.remove("over");
      handIn(event.dataTransfer.files);
    });
    for (const line of open.querySelectorAll("[data-submission]")) {
      follow(line.dataset.submission, line, before);
    }
  }

  // The time that is left in an exam, which the server decides: counted from when the page came.
  for (const place of document.querySelectorAll("[data-seconds]")) {
    const since = Date.now();
    const show = () => {
      const left = Math.max(0, Math.floor(Number(place.dataset.seconds) - (Date.now() - since) / 1000));
      const parts = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
      const clock = parts.map((part) => String(part).padStart(2, "0")).join(":");
      place.textContent = left ? clock + " left" : "so the time is up";
    };
    show();
    setInterval(show, 1000);
  }

  // The page of the class: its parts are fetched anew after each event.
  if (document.querySelector("[data-live=class]")) {
    const source = new EventSource("/api/staff/events");
    // The first event comes when the stream opens, so nothing since the page was written is missed.
    let [asked, shown] = [0, 0];
    source.addEventListener("state", async () => {
      const number = ++asked;
      const answer = await fetch("/class" + location.search);
      // Signed out elsewhere, or the token was replaced: the page for signing in says so, once.
      if (answer.status === 401) {
        source.close();
        location.reload();
      }
      if (!answer.ok) return;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      // Answers may come out of order: drop the older ones.
      if (number < shown) return;
      shown = number;
      // Replace only the content of a focused table, so that it keeps the focus of the keyboard.
      for (const part of ["header", "#main"]) {
        const [now, then] = [document.querySelector(part), page.querySelector(part)];
        if (now.contains(document.activeElement) && document.activeElement !== now) continue;
        now.replaceChildren(...then.childNodes);
      }
    });
  }
})();
