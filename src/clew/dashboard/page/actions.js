// What can be done to a session: preview and apply a compaction, undo it, rename, branch, export, delete.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { applyPreview, branch, exportAddress, previewCompaction, removeSession, rename, undoCompaction } from "./api.js";
import { count, fullTime, percent, plural } from "./format.js";
import { Handoff } from "./handoff.js";
import { Dialog, Figure, Problem, useAction, Warnings } from "./parts.js";
import { go, sessionLink, sessionsLink } from "./route.js";
import { say } from "./said.js";
import { titleOf } from "./sessions.js";

const MOST_TITLE_CHARS = 200, MOST_FOCUS_CHARS = 500;

export function ActionBar({ shown, me, reload }) {
  const [open, setOpen] = useState(null);
  const reasonOf = (name) => (name !== "export" && !me.can_change ? me.read_only_reason : shown.actions[name]);
  const press = ({ name, Shown }) => {
    const reason = reasonOf(name);
    if (reason) say(reason[0].toUpperCase() + reason.slice(1) + ".");
    else setOpen({ Shown });
  };
  return html`<div class="actions" role="group" aria-label="Do something with this session">
    ${ACTIONS.map((action) => html`<${ActionButton} ...${action} reason=${reasonOf(action.name)} press=${() => press(action)} />`)}
    ${open && html`<${open.Shown} shown=${shown} close=${() => setOpen(null)} reload=${reload} />`}</div>`;
}

/** A button that can be reached also where it does nothing now: it then says why. */
const ActionButton = ({ words, kind = "", reason, press }) => html`
  <button type="button" class=${kind} aria-disabled=${Boolean(reason)} title=${reason || ""} onClick=${press}>
    ${words}${reason && html`<span class="unseen"> (not now: ${reason})</span>`}</button>`;

const Buttons = ({ close, words, busy, action, kind = "main", cancel = "Cancel", isFirstCancel = false }) => html`
  ${action.problem && html`<${Problem} problem=${action.problem} />`}
  <div class="buttons">
    <button type="button" autofocus=${isFirstCancel} onClick=${close}>${cancel}</button>
    <button type="submit" class=${kind} aria-disabled=${action.isBusy}>${action.isBusy ? busy : words}</button></div>`;

const submit = (action) => (event) => { event.preventDefault(); action.run(); };
const typedInto = (set) => (event) => set(event.target.value);

// -- compacting ---------------------------------------------------------------------------------------------------------

function CompactDialog({ shown: { session }, close, reload }) {
  const [focus, setFocus] = useState("");
  const [found, setFound] = useState(null);
  const stop = useRef(new AbortController());
  const look = useAction(async () => {
    setFound(null);
    setFound(await previewCompaction(session.id, focus.trim(), stop.current.signal));
  });
  const apply = useAction(async () => {
    const done = await applyPreview(session.id, found.preview);
    close();
    reload();
    say(`Compacted: ${count(done.tokens_before)} → ${count(done.tokens_after)} tokens. Undo brings the former view back.`);
  });
  const leave = () => { stop.current.abort(); close(); };
  const isStale = apply.problem && [404, 409].includes(apply.problem.status);
  const isChanged = Boolean(found && found.is_changed);
  const canApply = isChanged && found.preview && found.focus === (focus.trim() || null) && !isStale;
  return html`<${Dialog} title="Compact this session" isLarge=${isChanged} close=${leave}
      lead="First you see what it would do. Nothing is deleted: the originals stay in the store, and undo brings the view back.">
    <form onSubmit=${submit(look)}>
      <div class="field"><label for="focus">Focus topic (optional): what the handoff should tell in full</label>
        <div class="joined">
          <input id="focus" type="text" value=${focus} maxlength=${MOST_FOCUS_CHARS} autofocus placeholder="the database schema" onInput=${typedInto(setFocus)} />
          <button type="submit" class=${canApply ? "" : "main"} aria-disabled=${look.isBusy}>
            ${look.isBusy ? "At work…" : found ? "Preview again" : "Preview"}</button></div></div>
    </form>
    ${look.isBusy && html`<p class="waiting" role="status">Writing the handoff. Where a model writes it, this may take a minute.</p>`}
    ${look.problem && html`<${Problem} problem=${look.problem} />`}
    ${found && !look.isBusy && html`<${Preview} found=${found} />`}
    ${apply.problem && html`<${Problem} problem=${apply.problem} />`}
    ${isStale && html`<p class="note">Preview again to see it as it would be now.</p>`}
    <div class="buttons">
      <button type="button" onClick=${leave}>${found && !isChanged ? "Close" : "Cancel"}</button>
      ${canApply && html`<button type="button" class="main" aria-disabled=${apply.isBusy} onClick=${() => apply.run()}>
        ${apply.isBusy ? "Applying…" : "Apply exactly this"}</button>`}</div>
  <//>`;
}

function Preview({ found }) {
  if (!found.is_changed) {
    return html`<div role="status"><p><strong>There is nothing to compact now.</strong></p>
      ${found.warnings.map((text) => html`<p class="soft">${text}</p>`)}</div>`;
  }
  const less = percent(1 - found.tokens_after / found.tokens_before) + " less";
  return html`
    <div role="status" class="preview">
      <dl class="figures">
        <${Figure} kind="main" value=${less} words="in every request from here on" />
        <${Figure} was=${count(found.tokens_before)} value=${count(found.tokens_after)} words="tokens" /></dl>
      <p>${whatWouldBecome(found)} ${writtenBy(found)}${unverifiedWords(found.unverified.length)}</p>
      <${Warnings} texts=${found.warnings} /></div>
    ${found.sections.length > 0 && html`<div class="card told">
      <div class="scroll-y" tabindex="0" role="group" aria-label="The handoff as it would be">
        <${Handoff} sections=${found.sections} linkOf=${() => null} /></div></div>`}`;
}

const writtenBy = ({ handoff, written_by: writer }) =>
  (handoff ? `The handoff is written by ${writer || "the engine"}.` : "No message is summarised, so there is no handoff.");

function whatWouldBecome({ folded, shortened, removed }) {
  const are = (number) => (number === 1 ? "is" : "are");
  const parts = [];
  if (folded) parts.push(`${plural(folded, "message")} ${folded === 1 ? "becomes" : "become"} a handoff`);
  if (shortened) parts.push(`${count(shortened)} ${are(shortened)} shortened`);
  if (removed) parts.push(`${count(removed)} ${are(removed)} removed`);
  return parts.join(", ") + ".";
}

const unverifiedWords = (strings) =>
  (strings ? ` ${plural(strings, "exact string")} in it ${strings === 1 ? "is" : "are"} not in the messages.` : "");

// -- undo, rename, branch ----------------------------------------------------------------------------------------------

function UndoDialog({ shown, close, reload }) {
  const last = [...shown.compactions].reverse().find((made) => made.is_in_effect);
  const action = useAction(async () => {
    const done = await undoCompaction(shown.session.id);
    close();
    reload();
    say(done.is_undone ? `Undone: ${plural(done.in_view, "message")} in view again, ${count(done.tokens)} tokens.` : "There was nothing to undo.");
  });
  return html`<${Dialog} title="Undo the last compaction?" close=${close}>
    <form onSubmit=${submit(action)}>
      ${last && html`
        <p>The compaction of ${fullTime(last.at)} made ${count(last.tokens_before)} tokens into ${count(last.tokens_after)}. The model sees the replaced messages again, word for word, and all newer messages.</p>
        <p class="lead">The next request is larger by about ${count(last.freed)} tokens, and the provider reads them anew.</p>`}
      <${Buttons} close=${close} action=${action} words="Undo" busy="Undoing…" /></form><//>`;
}

function RenameDialog({ shown, close, reload }) {
  const [title, setTitle] = useState(shown.session.title || "");
  const action = useAction(async () => {
    await rename(shown.session.id, title.trim() || null);
    close();
    reload();
    say(title.trim() ? `It is called “${title.trim()}” now.` : "It has no title any more.");
  });
  return html`<${Dialog} title="Rename" close=${close}><form onSubmit=${submit(action)}>
    <div class="field"><label for="title">Title; empty for none, then the first words stand for it</label>
      <input id="title" type="text" value=${title} maxlength=${MOST_TITLE_CHARS} autofocus onInput=${typedInto(setTitle)} /></div>
    <${Buttons} close=${close} action=${action} words="Rename" busy="Renaming…" /></form><//>`;
}

function BranchDialog({ shown, close }) {
  const total = shown.session.messages;
  const [at, setAt] = useState(String(total));
  const [title, setTitle] = useState("");
  const shared = /^\d+$/.test(at.trim()) && Number(at) <= total ? Number(at) : null;
  const action = useAction(async () => {
    if (shared === null) return;
    const made = await branch(shown.session.id, {
      ...(shared < total ? { at: shared } : {}), ...(title.trim() ? { title: title.trim() } : {}),
    });
    close();
    go(sessionLink(made.id));
    say("This is the branch. What it was made from goes on as it was.");
  });
  return html`<${Dialog} title="Branch off" close=${close}
      lead="A second session that shares the first messages and goes its own way from there.">
    <form onSubmit=${submit(action)}>
      <div class="field"><label for="at">Messages to share, of ${count(total)}</label>
        <input id="at" type="number" min="0" max=${total} value=${at} autofocus aria-describedby="at-words" onInput=${typedInto(setAt)} />
        <span class="note" id="at-words">${sharedWords(shared, total)}</span></div>
      <div class="field"><label for="branch-title">Title (optional)</label>
        <input id="branch-title" type="text" maxlength=${MOST_TITLE_CHARS} value=${title} onInput=${typedInto(setTitle)} /></div>
      <${Buttons} close=${close} action=${action} words="Branch off" busy="Branching…" /></form><//>`;
}

function sharedWords(shared, total) {
  if (shared === null) return `A number from 0 to ${count(total)}.`;
  if (shared === total) return "All of them.";
  return shared === 0 ? "None: it begins anew, with the same system prompt." : `m0 to m${shared - 1}.`;
}

// -- export, delete -----------------------------------------------------------------------------------------------------

const FORMATS = {
  chat: ["OpenAI chat", "one JSON object with messages; what most programs read"],
  jsonl: ["JSON lines", "one message a line, with its time and size"],
  anthropic: ["Anthropic Messages", "as Claude's API takes them"],
  responses: ["OpenAI Responses", "as the Responses API takes them"],
};

const Radio = ({ name, isChosen, choose, label, words }) => html`<label>
  <input type="radio" name=${name} checked=${isChosen} onChange=${choose} /><span>${label}<small>${words}</small></span></label>`;

function ExportDialog({ shown: { session }, close }) {
  const [format, setFormat] = useState("chat");
  const [isView, setIsView] = useState(false);
  const started = () => { close(); say("The export was started."); };
  return html`<${Dialog} title="Export" close=${close}>
    <fieldset class="choices"><legend class="soft">Form</legend>
      ${Object.entries(FORMATS).map(([name, [label, words]]) => html`
        <${Radio} name="format" isChosen=${format === name} choose=${() => setFormat(name)} label=${label} words=${words} />`)}</fieldset>
    <fieldset class="choices"><legend class="soft">Messages</legend>
      <${Radio} name="which" isChosen=${!isView} choose=${() => setIsView(false)} label="All of them, as received" words=${plural(session.messages, "message")} />
      <${Radio} name="which" isChosen=${isView} choose=${() => setIsView(true)} label="What the model sees now" words="with the handoff in place of what it replaced" /></fieldset>
    <div class="buttons"><button type="button" onClick=${close}>Cancel</button>
      <a class="button main" href=${exportAddress(session.id, format, isView)} download="" onClick=${started}>Download</a></div><//>`;
}

function DeleteDialog({ shown: { session }, close }) {
  const action = useAction(async () => {
    await removeSession(session.id);
    close();
    go(sessionsLink());
    say("Deleted.");
  });
  return html`<${Dialog} title="Delete this session?" close=${close}><form onSubmit=${submit(action)}>
    <p><strong>${titleOf(session)}</strong></p>
    <p>Its ${plural(session.messages, "message")} and handoffs are removed from the store for good. There is no undo for this; an export keeps a copy.</p>
    <${Buttons} close=${close} action=${action} words="Delete for good" busy="Deleting…" kind="main danger" cancel="Keep it" isFirstCancel=${true} />
  </form><//>`;
}

const ACTIONS = [
  { name: "preview", words: "Compact…", kind: "main", Shown: CompactDialog },
  { name: "undo", words: "Undo…", Shown: UndoDialog },
  { name: "rename", words: "Rename…", Shown: RenameDialog },
  { name: "branch", words: "Branch…", Shown: BranchDialog },
  { name: "export", words: "Export…", Shown: ExportDialog },
  { name: "delete", words: "Delete…", kind: "danger", Shown: DeleteDialog },
];
