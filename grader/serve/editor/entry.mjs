// The editor of the exercise page: CodeMirror with what an exercise needs, and a small interface for exercise.js.
// `make editor` writes it as one file, with all that it imports, to ../templates/editor.js.
import { EditorState, RangeSet, StateEffect, StateField } from "@codemirror/state";
import {
  Decoration,
  EditorView,
  GutterMarker,
  drawSelection,
  gutter,
  highlightActiveLine,
  highlightActiveLineGutter,
  highlightSpecialChars,
  keymap,
  lineNumbers,
} from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab, isolateHistory } from "@codemirror/commands";
import {
  HighlightStyle,
  LanguageSupport,
  bracketMatching,
  indentOnInput,
  indentUnit,
  syntaxHighlighting,
} from "@codemirror/language";
import { pythonLanguage } from "@codemirror/lang-python";
import { highlightSelectionMatches, search, searchKeymap } from "@codemirror/search";
import { tags } from "@lezer/highlight";

// The page's own colors, which follow light and dark.
const theme = EditorView.theme({
  "&": { height: "100%", backgroundColor: "var(--card)", color: "var(--ink)", fontSize: "0.875rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": {
    fontFamily: 'ui-monospace, "Cascadia Mono", Menlo, Consolas, monospace',
    lineHeight: "1.5",
    overflow: "auto",
  },
  ".cm-content": { caretColor: "var(--ink)", padding: "0.5rem 0" },
  ".cm-cursor": { borderLeftColor: "var(--ink)", borderLeftWidth: "2px" },
  ".cm-gutters": { backgroundColor: "var(--page)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 8%, transparent)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "color-mix(in srgb, var(--accent) 30%, transparent)",
  },
  ".cm-selectionMatch, .cm-searchMatch": { backgroundColor: "var(--mark)" },
  ".cm-searchMatch-selected": { outline: "2px solid var(--edge)" },
  ".cm-matchingBracket": { outline: "1px solid var(--edge)", backgroundColor: "transparent !important" },
  ".cm-marked": { backgroundColor: "var(--mark)", boxShadow: "inset 3px 0 var(--edge)" },
  ".cm-marks": { width: "1.1rem" },
  ".cm-marks .cm-gutterElement": { color: "var(--bad)", fontWeight: "700", textAlign: "center" },
  ".cm-panels": { backgroundColor: "var(--page)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { color: "var(--ink)", background: "var(--card)", font: "inherit" },
  ".cm-panel button": { border: "1px solid var(--muted)", borderRadius: "4px", backgroundImage: "none" },
  ".cm-panel label": { whiteSpace: "nowrap" },
});
const colors = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.controlKeyword], color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.comment], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--look)" },
  { tag: [tags.definition(tags.function(tags.variableName)), tags.definition(tags.className)], color: "var(--part)" },
  { tag: [tags.meta], color: "var(--part)" },
  { tag: [tags.invalid], color: "var(--bad)" },
]);

class Mark extends GutterMarker {
  toDOM() {
    return document.createTextNode("●");
  }
}
const mark = new Mark();
const setMarks = StateEffect.define();
const none = RangeSet.empty;
const marks = StateField.define({
  create: () => ({ gutter: none, lines: Decoration.none }),
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (!effect.is(setMarks)) continue;
      const starts = effect.value
        .filter((number) => number >= 1 && number <= transaction.state.doc.lines)
        .map((number) => transaction.state.doc.line(number).from);
      return {
        gutter: RangeSet.of(starts.map((from) => mark.range(from)), true),
        lines: Decoration.set(starts.map((from) => Decoration.line({ class: "cm-marked" }).range(from)), true),
      };
    }
    if (!transaction.docChanged) return value;
    return { gutter: value.gutter.map(transaction.changes), lines: value.lines.map(transaction.changes) };
  },
  provide: (field) => EditorView.decorations.from(field, (value) => value.lines),
});

// What is typed over a selection: the browser would merge the lines with styles of its own, which the policy of
// the page refuses.
function typedOver(event, view) {
  const isPlain = event.inputType === "insertText" && event.data && !event.isComposing;
  if (!isPlain || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

// In a shadow root, where styles are adopted and not written into the page: its policy refuses those.
window.openEditor = function (place, { text, label, changed, run, save }) {
  const root = place.attachShadow({ mode: "open" });
  const own = [
    { key: "Mod-Enter", run: () => (run(), true) },
    { key: "Mod-s", run: () => (save(), true) },
  ];
  const extensions = [
    keymap.of(own),
    lineNumbers(),
    gutter({ class: "cm-marks", markers: (view) => view.state.field(marks).gutter }),
    marks,
    highlightActiveLineGutter(),
    highlightActiveLine(),
    highlightSpecialChars(),
    history(),
    drawSelection(),
    indentOnInput(),
    indentUnit.of("    "),
    EditorState.tabSize.of(4),
    bracketMatching(),
    highlightSelectionMatches(),
    search({ top: true }),
    new LanguageSupport(pythonLanguage),
    syntaxHighlighting(colors),
    theme,
    EditorView.contentAttributes.of({ "aria-label": label, autocapitalize: "off", spellcheck: "false", tabindex: "0" }),
    EditorView.domEventHandlers({ beforeinput: typedOver }),
    EditorView.updateListener.of((update) => update.docChanged && changed()),
    keymap.of([...searchKeymap, ...historyKeymap, ...defaultKeymap, indentWithTab]),
  ];
  const view = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: root, root });
  return {
    text: () => view.state.sliceDoc(),
    // As one change of its own, however soon after another one: undo brings back the text before.
    replace: (other) =>
      view.dispatch({
        changes: { from: 0, to: view.state.doc.length, insert: other },
        annotations: isolateHistory.of("full"),
      }),
    mark: (lines) => view.dispatch({ effects: setMarks.of(lines) }),
    show(number) {
      const line = view.state.doc.line(Math.min(Math.max(number, 1), view.state.doc.lines));
      view.dispatch({ selection: { anchor: line.from }, effects: EditorView.scrollIntoView(line.from, { y: "center" }) });
      view.focus();
    },
    focus: () => view.focus(),
  };
};
