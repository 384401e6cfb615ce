// What can be done to a session: preview and apply a compaction, undo it, rename, branch, export, delete.

import { html, useRef, useState } from "./vendor/htm-preact.js";
import { applyPreview, branch, exportAddress, previewCompaction, removeSession, rename, undoCompaction } from "./api.js";
import { count, fullTime, percent, plural } from "./format.js";
import { Handoff } from "./handoff.js";
import { Dialog, Figure, Problem, useAction, Warnings } from "./parts.js";
import { go, sessionLink, sessionsLink } from "./route.js";
import { say } from "./said.js";
import { titleOf } from "./sessions.js";

const ACTIONS = [
  { name: "preview", words: "Compact…", kind: "main" }, { name: "undo", words: "Undo…" }, { name: "rename", words: "Rename…" },
  { name: "branch", words: "Branch…" }, { name: "export", words: "Export…" }, { name: "delete", words: "Delete…", kind: "danger" },
];

export function ActionBar({ shown, me, reload }) {
  const [open, setOpen] = useState(null);
  const why = (name) => (name !== "export" && !me.can_change ? me.read_only_reason || "nothing can be changed here" : shown.actions[name]);
  const press = (name) => {
    const reason = why(name);
    if (reason) say(reason[0].toUpperCase() + reason.slice(1) + ".");
    else setOpen(name);
  };
  const Shown = open && DIALOGS[open];
  return html`<div class="actions" role="group" aria-label="Do something with this session">
    ${ACTIONS.map(({ name, words, kind }) => html`<button type="button" class=${kind || ""} aria-disabled=${Boolean(why(name))} title=${why(name) || ""} onClick=${() => press(name)}>${words}${why(name) && html`<span class="unseen"> (not now: ${why(name)})</span>`}</button>`)}
    ${Shown && html`<${Shown} shown=${shown} close=${() => setOpen(null)} reload=${reload} />`}</div>`;
}

const Buttons = ({ close, words, busy, action, kind = "main", cancel = "Cancel", isFirstCancel = false }) => html`<div class="buttons">
  <button type="button" autofocus=${isFirstCancel} onClick=${close}>${cancel}</button>
  <button type="submit" class=${kind} aria-disabled=${action.isBusy}>${action.isBusy ? busy : words}</button></div>`;

const submit = (action) => (event) => { event.preventDefault(); action.run(); };

// -- compacting -----------------------------------------------------------------------------------------------------

function CompactDialog({ shown, close, reload }) {
  const { session } = shown;
  const [focus, setFocus] = useState("");
  const [found, setFound] = useState(null);
  const stop = useRef(new AbortController());
  const look = useAction(async () => { setFound(null); setFound(await previewCompaction(session.id, focus.trim(), stop.current.signal)); });
  const apply = useAction(async () => {
    const done = await applyPreview(session.id, found.preview);
    close();
    reload();
    say(`Compacted: ${count(done.tokens_before)} → ${count(done.tokens_after)} tokens. Undo brings the former view back.`);
  });
  const leave = () => { stop.current.abort(); close(); };
  const isStale = apply.problem && [404, 409].includes(apply.problem.status);
  const canApply = found && found.is_changed && found.preview && found.focus === (focus.trim() || null) && !isStale;
  return html`<${Dialog} title="Compact this session" isLarge=${Boolean(found && found.is_changed)} close=${leave}
      lead="First you see what it would do. Nothing is deleted: the originals stay in the store, and undo brings the view back.">
    <form onSubmit=${submit(look)}>
      <div class="field"><label for="focus">Focus topic (optional): what the handoff should tell in full</label>
        <div class="joined"><input id="focus" type="text" value=${focus} maxlength="500" autofocus placeholder="the database schema" onInput=${(event) => setFocus(event.target.value)} />
        <button type="submit" class=${canApply ? "" : "main"} aria-disabled=${look.isBusy}>${look.isBusy ? "At work…" : found ? "Preview again" : "Preview"}</button></div></div>
    </form>
    ${look.isBusy && html`<p class="waiting" role="status">Writing the handoff. Where a model writes it, this may take a minute.</p>`}
    ${look.problem && html`<${Problem} problem=${look.problem} />`}
    ${found && !look.isBusy && html`<${Preview} found=${found} id=${session.id} />`}
    ${apply.problem && html`<${Problem} problem=${apply.problem} />`}
    ${isStale && html`<p class="note">Preview again to see it as it would be now.</p>`}
    <div class="buttons"><button type="button" onClick=${leave}>${found && !found.is_changed ? "Close" : "Cancel"}</button>
      ${canApply && html`<button type="button" class="main" aria-disabled=${apply.isBusy} onClick=${() => apply.run()}>${apply.isBusy ? "Applying…" : "Apply exactly this"}</button>`}</div>
  <//>`;
}

function Preview({ found, id }) {
  if (!found.is_changed) {
    return html`<div role="status"><p><strong>There is nothing to compact now.</strong></p>${found.warnings.map((text) => html`<p class="soft">${text}</p>`)}</div>`;
  }
  const done = [[found.folded, "message becomes", "messages become"], [found.shortened, "is", "are"], [found.removed, "is", "are"]];
  const parts = [found.folded && `${count(found.folded)} ${found.folded === 1 ? done[0][1] : done[0][2]} a handoff`, found.shortened && `${count(found.shortened)} ${found.shortened === 1 ? "is" : "are"} shortened`, found.removed && `${count(found.removed)} ${found.removed === 1 ? "is" : "are"} removed`];
  return html`<div role="status" class="preview">
    <dl class="figures"><${Figure} kind="main" value=${percent(1 - found.tokens_after / found.tokens_before) + " less"} words="in every request from here on" /><${Figure} was=${count(found.tokens_before)} value=${count(found.tokens_after)} words="tokens" /></dl>
    <p>${parts.filter(Boolean).join(", ")}. Written by ${found.written_by || "nobody"}.${found.unverified.length ? ` ${plural(found.unverified.length, "exact string")} in it ${found.unverified.length === 1 ? "is" : "are"} not in the messages, and marked.` : ""}</p>
    <${Warnings} texts=${found.warnings} /></div>
    ${found.blocks && found.blocks.length > 0 && html`<div class="card told"><div class="scroll-y" tabindex="0" role="group" aria-label="The handoff as it would be"><${Handoff} blocks=${found.blocks} linkOf=${() => null} /></div></div>`}`;
}

// -- undo, rename, branch ------------------------------------------------------------------------------------------

function UndoDialog({ shown, close, reload }) {
  const last = [...shown.compactions].reverse().find((made) => made.is_in_effect);
  const action = useAction(async () => {
    const done = await undoCompaction(shown.session.id);
    close();
    reload();
    say(done.is_undone === false ? "There was nothing to undo." : `Undone: ${plural(done.in_view, "message")} in view again, ${count(done.tokens)} tokens.`);
  });
  return html`<${Dialog} title="Undo the last compaction?" close=${close}>
    <form onSubmit=${submit(action)}>
      ${last && html`<p>The compaction of ${fullTime(last.at)} made ${count(last.tokens_before)} tokens into ${count(last.tokens_after)}. The model sees the messages again that it replaced, word for word, and what came since.</p>`}
      <p class="lead">The next request is larger by about ${last ? count(last.freed) : 0} tokens, and the provider reads them anew.</p>
      ${action.problem && html`<${Problem} problem=${action.problem} />`}
      <${Buttons} close=${close} action=${action} words="Undo" busy="Undoing…" /></form><//>`;
}

function RenameDialog({ shown, close, reload }) {
  const [title, setTitle] = useState(shown.session.title || "");
  const action = useAction(async () => {
    await rename(shown.session.id, title.trim() || null);
    close();
    reload();
    say(title.trim() ? `It is called “${title.trim()}” now.` : "It has no title of its own any more.");
  });
  return html`<${Dialog} title="Rename" close=${close}><form onSubmit=${submit(action)}>
    <div class="field"><label for="title">Title; empty for none, then the first words stand for it</label>
      <input id="title" type="text" value=${title} maxlength="200" autofocus onInput=${(event) => setTitle(event.target.value)} /></div>
    ${action.problem && html`<${Problem} problem=${action.problem} />`}
    <${Buttons} close=${close} action=${action} words="Rename" busy="Renaming…" /></form><//>`;
}

function BranchDialog({ shown, close }) {
  const total = shown.session.messages;
  const [at, setAt] = useState(String(total));
  const [title, setTitle] = useState("");
  const number = Number(at), isRight = /^\d+$/.test(at.trim()) && number <= total;
  const action = useAction(async () => {
    const fields = { ...(number < total ? { at: number } : {}), ...(title.trim() ? { title: title.trim() } : {}) };
    const made = await branch(shown.session.id, fields);
    close();
    go(sessionLink(made.id));
    say("This is the branch. What it was made from goes on as it was.");
  });
  return html`<${Dialog} title="Branch off" close=${close} lead="A second session that shares the first messages and goes its own way from there.">
    <form onSubmit=${(event) => { event.preventDefault(); if (isRight) action.run(); }}>
      <div class="field"><label for="at">Messages to share, of ${count(total)}</label>
        <input id="at" type="number" min="0" max=${total} value=${at} autofocus aria-describedby="at-words" onInput=${(event) => setAt(event.target.value)} />
        <span class="note" id="at-words">${!isRight ? `A number from 0 to ${count(total)}.` : number === 0 ? "None: it begins anew, with the same system prompt." : number === total ? "All of them." : `m0 to m${number - 1}.`}</span></div>
      <div class="field"><label for="branch-title">Title (optional)</label><input id="branch-title" type="text" maxlength="200" value=${title} onInput=${(event) => setTitle(event.target.value)} /></div>
      ${action.problem && html`<${Problem} problem=${action.problem} />`}
      <${Buttons} close=${close} action=${action} words="Branch off" busy="Branching…" /></form><//>`;
}

// -- export, delete --------------------------------------------------------------------------------------------------

const FORMATS = {
  chat: ["OpenAI chat", "one JSON object with messages; what most programs read"],
  jsonl: ["JSON lines", "one message a line, with its time and size"],
  anthropic: ["Anthropic Messages", "as Claude's API takes them"],
  responses: ["OpenAI Responses", "as the Responses API takes them"],
};

function ExportDialog({ shown, close }) {
  const [format, setFormat] = useState("chat");
  const [isView, setIsView] = useState(false);
  const started = () => { close(); say("The export was started."); };
  const choice = (name, value, current, set, label, words) => html`<label><input type="radio" name=${name} checked=${current === value} onChange=${() => set(value)} /><span>${label}<small>${words}</small></span></label>`;
  return html`<${Dialog} title="Export" close=${close}>
    <fieldset class="choices"><legend class="soft">Form</legend>${Object.entries(FORMATS).map(([name, [label, words]]) => choice("format", name, format, setFormat, label, words))}</fieldset>
    <fieldset class="choices"><legend class="soft">Messages</legend>${choice("which", false, isView, setIsView, "All of them, as they came", plural(shown.session.messages, "message"))}${choice("which", true, isView, setIsView, "What the model sees now", "with the handoff in place of what it replaced")}</fieldset>
    <div class="buttons"><button type="button" onClick=${close}>Cancel</button><a class="button main" href=${exportAddress(shown.session.id, format, isView)} download="" onClick=${started}>Download</a></div><//>`;
}

function DeleteDialog({ shown, close }) {
  const action = useAction(async () => {
    await removeSession(shown.session.id);
    close();
    go(sessionsLink());
    say("Deleted.");
  });
  return html`<${Dialog} title="Delete this session?" close=${close}><form onSubmit=${submit(action)}>
    <p><strong>${titleOf(shown.session)}</strong></p>
    <p>Its ${plural(shown.session.messages, "message")} and handoffs are removed from the store for good. There is no undo for this; an export keeps a copy.</p>
    ${action.problem && html`<${Problem} problem=${action.problem} />`}
    <${Buttons} close=${close} action=${action} words="Delete for good" busy="Deleting…" kind="main danger" cancel="Keep it" isFirstCancel=${true} /></form><//>`;
}

const DIALOGS = { preview: CompactDialog, undo: UndoDialog, rename: RenameDialog, branch: BranchDialog, export: ExportDialog, delete: DeleteDialog };
