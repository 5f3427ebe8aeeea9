"use strict";
// The page to write in: drafts are saved while the student writes, runs and hand-ins are answered beside the editor.
(async function () {
  const work = document.querySelector("[data-exercise]");
  const exercise = work.dataset.exercise;
  const address = "/api/exercises/" + exercise;
  // Staff try the exercise: nothing is saved.
  const isTrial = "trial" in work.dataset;
  const [said, saved, verdict] = ["said", "saved", "verdict"].map((id) => document.getElementById(id));
  const choice = document.getElementById("choice");
  // A draft is saved this long after the last change, and at least this often while somebody writes.
  const [PAUSE, LATEST, AGAIN] = [1500, 8000, 5000];
  // In the last minutes of an exam, a text that was not handed in is named in a notice.
  const [LAST_SECONDS, OPENED] = [300, Date.now()];
  const LOST = "The server did not answer. Hand in again: your file counts once.";
  const SIGN_IN = "You are signed out. Sign in again in another tab, and come back: your text stays here.";

  async function ask(method, path, body, headers) {
    const options = { method, headers };
    if (body) {
      options.headers = { "Content-Type": "application/json", ...headers };
      options.body = JSON.stringify(body);
    }
    // Sent even if the page is closed at once. Browsers allow this only up to 64 KiB.
    options.keepalive = method === "PUT" && new TextEncoder().encode(options.body).length < 60000;
    let answer;
    try {
      answer = await fetch(path, options);
    } catch {
      throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
    }
    if (!answer.ok) {
      const told = await answer.json().catch(() => ({ error: "The server answered " + answer.status + "." }));
      const isSignedOut = answer.status === 401;
      throw Object.assign(new Error(isSignedOut ? SIGN_IN : told.error), { status: answer.status });
    }
    return answer;
  }
  const read = async (path) => (await ask("GET", path)).json();
  const tell = (text) => (said.textContent = text);

  let draft;
  // The file that was handed in last, and when.
  let [handedIn, handedInAt] = [null, ""];
  try {
    draft = await read(address + "/draft");
    await learnHandedIn(draft.versions);
  } catch (error) {
    tell(error.message);
    return;
  }
  // The draft on the server's disk, as far as this tab knows.
  let [revision, kept, savedAt] = [draft.revision, draft.source, draft.saved_words];
  // Why the text is in this tab only, if it could not be saved.
  let unsaved = "";
  // Whether another tab saved a newer draft: then nothing is saved until the student has chosen.
  let isOlder = false;
  let [timer, since, saving] = [0, 0, Promise.resolve(true)];

  const editor = window.openEditor(document.getElementById("editor"), {
    text: draft.source,
    label: "Your file " + draft.file + ". Escape, then Tab leaves the editor.",
    changed: later,
    run,
    save: () => save(),
  });
  for (const button of work.querySelectorAll("button[disabled]")) button.disabled = false;
  tellSaved();
  listVersions(draft.versions);

  // --- drafts ---------------------------------------------------------------------------------

  // A draft counts for nothing, so its student reads whether it was handed in.
  function tellSaved(where = "") {
    if (isTrial) return;
    unsaved = "";
    saved.classList.remove("notice");
    const status = kept === handedIn ? " and handed in" : ". It is not handed in.";
    saved.textContent = savedAt && "Saved " + savedAt + where + status;
  }

  function tellUnsaved(why) {
    unsaved = why;
    saved.classList.add("notice");
    saved.textContent = "Not saved: " + why;
  }

  async function learnHandedIn(versions) {
    const newest = versions.find(({ number }) => number === 0);
    if (!newest || newest.saved_at === handedInAt) return;
    [handedIn, handedInAt] = [(await read(address + "/versions/0")).source, newest.saved_at];
  }

  function later() {
    if (isTrial) return;
    const now = Date.now();
    if (!timer) since = now;
    clearTimeout(timer);
    if (!unsaved) saved.textContent = "Not saved yet";
    timer = setTimeout(save, Math.max(0, Math.min(PAUSE, since + LATEST - now)));
  }

  // Saves wait for each other, since each is based on the last. Resolves to whether the text is on the disk.
  function save(keep = false) {
    clearTimeout(timer);
    timer = 0;
    saving = saving.then(() => saveNow(keep === true));
    return saving;
  }

  async function saveNow(keep) {
    const source = editor.text();
    if (isOlder) return false;
    if (isTrial) return true;
    if (source === kept) {
      if (!timer) tellSaved();
      return true;
    }
    try {
      const told = await (await ask("PUT", address + "/draft", { source, revision, keep })).json();
      [revision, kept, savedAt] = [told.revision, source, told.saved_words];
      if (timer) unsaved = "";
      else tellSaved();
      return true;
    } catch (error) {
      if (error.status === 409) {
        tellOlder();
      } else {
        tellUnsaved(error.message);
        if (![401, 403, 413].includes(error.status)) timer = timer || setTimeout(save, AGAIN);
      }
      return false;
    }
  }

  function tellOlder() {
    isOlder = true;
    tellUnsaved("a newer draft was saved in another tab or on another machine.");
    choice.hidden = false;
  }

  async function newest() {
    const told = await read(address + "/draft");
    await learnHandedIn(told.versions);
    [revision, kept, savedAt] = [told.revision, told.source, told.saved_words];
    [isOlder, choice.hidden] = [false, true];
    listVersions(told.versions);
    return told;
  }

  async function loadNewest() {
    await newest();
    editor.replace(kept);
    await save();
    editor.focus();
  }

  async function keepThis() {
    await newest();
    await save(true);
    await refreshVersions();
    editor.focus();
  }

  // Another tab may have saved while this one was hidden.
  async function lookAgain() {
    if (document.hidden || isOlder) return;
    // Somebody who was signed out may have signed in again.
    if (unsaved && !(await save())) return;
    const told = await read(address + "/draft").catch(() => null);
    if (told === null || told.revision <= revision) return;
    if (editor.text() === kept) {
      [revision, kept, savedAt] = [told.revision, told.source, told.saved_words];
      if (editor.text() !== kept) editor.replace(kept);
      listVersions(told.versions);
      await learnHandedIn(told.versions).catch(() => null);
      tellSaved(" in another tab or on another machine");
    } else tellOlder();
  }

  function listVersions(versions) {
    const items = versions.map(({ number, saved_words, by }) => {
      const what = (number ? "the version of " : "the file handed in at ") + saved_words;
      const load = buttonOf("Go back", "Go back to " + what, async () => {
        const { source } = await read(address + "/versions/" + number);
        await put(source, "This is the version of " + saved_words + ".");
      });
      const compare = buttonOf("Compare", "Compare with " + what, async () => {
        showChanges((await read(address + "/versions/" + number)).source, what);
      });
      const item = document.createElement("li");
      const handedIn = by ? ", handed in by " + by + " " : ", handed in ";
      item.append(saved_words + (number ? " " : handedIn), load, " ", compare);
      return item;
    });
    document.getElementById("versions").replaceChildren(...items);
    document.getElementById("no-versions").hidden = items.length > 0;
  }

  function buttonOf(text, label, action) {
    const button = document.createElement("button");
    [button.type, button.textContent] = ["button", text];
    button.setAttribute("aria-label", label);
    button.addEventListener("click", attempt(action));
    return button;
  }

  // From the version to the text in the editor.
  function showChanges(source, what) {
    const lines = window.changes.linesOf(source, editor.text());
    const count = (kind) => lines.filter(([each]) => each === kind).length;
    const [added, removed] = [count("+"), count("-")];
    const counted = (number) => (number === 1 ? "1 line" : number + " lines");
    document.getElementById("changes-said").textContent =
      added + removed
        ? "Since " + what + ", " + counted(added) + " added and " + counted(removed) + " removed:"
        : "The text in the editor is " + what + ".";
    const place = document.getElementById("changes");
    place.replaceChildren(...window.changes.shown(lines));
    document.getElementById("comparison").hidden = false;
    place.focus();
  }

  // Only the list; this tab's revision does not change.
  async function refreshVersions() {
    listVersions((await read(address + "/draft")).versions);
  }

  // Replace the whole text. The old text is saved first, as a version.
  async function put(source, what) {
    if (!(await save())) {
      tell("Your text was left as it is: " + unsaved);
      return;
    }
    editor.replace(source);
    const isKept = await save(true);
    await refreshVersions();
    if (isTrial) tell(what + " Undo brings back what was there before.");
    else if (isKept) tell(what + " What was there before is among the versions, and undo brings it back.");
    editor.focus();
  }

  // --- runs and hand-ins ------------------------------------------------------------------------

  let running = 0;

  // Findings stay until newer ones come, which may never be.
  function markFindings() {
    if (!verdict.hasChildNodes() || verdict.querySelector(".earlier")) return;
    const note = document.createElement("p");
    [note.className, note.textContent] = ["muted earlier", "These findings are of an earlier run:"];
    verdict.prepend(note);
  }

  async function run() {
    const number = ++running;
    markFindings();
    const isNewest = () => number === running;
    tell("Running…");
    said.scrollIntoView({ block: "nearest" });
    save();
    let isAnswered = false;
    try {
      const answer = await ask("POST", address + "/practice", { source: editor.text() });
      await eachEvent(answer.body, (name, data) => {
        if (!isNewest()) return;
        if (name === "place") tell("Place " + data.place + " in the queue of practice runs");
        if (name === "test") tell(data.ended === 1 ? "1 test ended" : data.ended + " tests ended");
        if (name === "error") tell(data.error);
        if (name === "judged") show(data);
        isAnswered = isAnswered || name === "error" || name === "judged";
      });
      if (isNewest() && !isAnswered) tell("The server ended before the run did. Run it again.");
    } catch (error) {
      if (isNewest()) tell(error.message);
    }
  }

  async function eachEvent(body, told) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const each of events) {
        const found = /^event: (.*)\ndata: (.*)$/.exec(each);
        if (found) told(found[1], JSON.parse(found[2]));
      }
    }
  }

  function show({ exercise: result, page }) {
    const piece = new DOMParser().parseFromString(page, "text/html");
    verdict.replaceChildren(...piece.body.childNodes);
    const places = [...verdict.querySelectorAll("[data-line]")];
    editor.mark(places.map((each) => Number(each.dataset.line)));
    for (const each of places) each.addEventListener("click", () => editor.show(Number(each.dataset.line)));
    const passed = result.tests.filter((test) => test.outcome === "passed").length;
    tell(result.message ? "The run is below." : passed + " of " + result.tests.length + " public tests passed.");
  }

  async function plot() {
    tell("Drawing…");
    said.scrollIntoView({ block: "nearest" });
    const figure = document.getElementById("picture");
    figure.hidden = true;
    const answer = await ask("POST", address + "/plot", { source: editor.text() });
    // Onto a canvas, since the page's security policy forbids images from an address.
    const picture = await createImageBitmap(await answer.blob());
    const canvas = figure.querySelector("canvas");
    [canvas.width, canvas.height] = [picture.width, picture.height];
    canvas.getContext("2d").drawImage(picture, 0, 0);
    figure.hidden = false;
    tell("The plot is below.");
    figure.scrollIntoView({ block: "nearest" });
  }

  // The hand-in on its way, or the one that a broken connection left: trying again with its key hands in once.
  let handing = { text: null, key: "", isOpen: false };

  async function handIn() {
    if (handing.isOpen) return;
    tell("Handing in…");
    markFindings();
    said.scrollIntoView({ block: "nearest" });
    handing.isOpen = true;
    try {
      await handInNow();
    } finally {
      handing.isOpen = false;
    }
  }

  async function handInNow() {
    if (!(await save(true))) {
      tell("Nothing was handed in: " + unsaved);
      return;
    }
    const text = editor.text();
    if (text !== handing.text) Object.assign(handing, { text, key: crypto.getRandomValues(new Uint32Array(4)).join("-") });
    const bytes = new TextEncoder().encode(text);
    const content = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    let handed;
    try {
      const files = { [draft.file]: content };
      handed = await (await ask("POST", "/api/submissions", { files }, { "Idempotency-Key": handing.key })).json();
    } catch (error) {
      // Also for the answer of a proxy, whose words are not the server's.
      if ([0, 502, 504].includes(error.status)) throw new Error(LOST);
      handing.text = null;
      throw error;
    }
    [handing.text, handedIn] = [null, text];
    if (!timer) tellSaved();
    // The assignment, when it is due, and what lateness costs.
    const about = Object.values(handed.about ?? {}).map((each) => each + ".");
    const notes = [...about, ...Object.values(handed.problems ?? {}), ""].join(" ");
    await refreshVersions();
    const source = new EventSource("/api/submissions/" + handed.id + "/events");
    source.addEventListener("place", (event) => {
      tell("Handed in: place " + JSON.parse(event.data).place + " in the queue. " + notes);
    });
    source.addEventListener("test", (event) => {
      const { ended, of } = JSON.parse(event.data);
      tell("Handed in: " + ended + " of " + of + " tests. " + notes);
    });
    source.addEventListener("state", (event) => {
      const answer = JSON.parse(event.data);
      if (answer.state !== "done" && answer.state !== "replaced") {
        tell("Handed in. " + notes);
        return;
      }
      source.close();
      tell((answer.result ? "Handed in, and judged. " : "Handed in. ") + notes);
      const link = document.createElement("a");
      link.href = "/#ex-" + exercise;
      const result = answer.result?.exercises.find((each) => each.name === exercise);
      link.textContent = result ? result.score + " of " + result.max_score + " points: read the verdict" : "Your page";
      said.append(link);
    });
  }

  // Only a new minute or a hand-in changes the words, so that a screen reader does not say them every second.
  function warn(notice) {
    const left = Number(document.querySelector("[data-seconds]").dataset.seconds) - (Date.now() - OPENED) / 1000;
    const isLast = left > 0 && left <= LAST_SECONDS && editor.text() !== (handedIn ?? draft.stub);
    const minutes = Math.ceil(left / 60);
    const words = (minutes === 1 ? "1 minute" : minutes + " minutes") + " left. Your text is ";
    const text = isLast ? words + (unsaved ? "" : "saved but ") + "not handed in." : "";
    if (notice.textContent === text) return;
    notice.textContent = text;
    notice.classList.toggle("notice", isLast);
  }

  function attempt(action) {
    return () => Promise.resolve(action()).catch((error) => tell(error.message));
  }

  const notice = document.getElementById("last-minutes");
  if (notice && document.querySelector("[data-seconds]")) setInterval(warn, 1000, notice);

  const press = (id, action) => document.getElementById(id)?.addEventListener("click", attempt(action));
  press("run", run);
  press("plot", plot);
  press("hand-in", handIn);
  press("reset", () => put(draft.stub, "This is the file as it was handed out."));
  press("load-newest", loadNewest);
  press("keep-this", keepThis);
  document.getElementById("download")?.addEventListener("click", (event) => {
    event.preventDefault();
    save();
    // From the editor: a text that cannot be saved is downloaded, too.
    const link = document.createElement("a");
    [link.download, link.href] = [draft.file, URL.createObjectURL(new Blob([editor.text()]))];
    link.click();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
    if (event.key === "Enter") run();
    if (event.key === "s") {
      event.preventDefault();
      save();
    }
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? save() : lookAgain()));
  window.addEventListener("focus", lookAgain);
  window.addEventListener("beforeunload", (event) => {
    if (unsaved) event.preventDefault();
  });
})();
