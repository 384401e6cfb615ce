// Runs a plugin of `clew setup` as its program would, with stubs in place of the program.
//
//     node plugin_host.mjs PROGRAM FILE < {"rows": [...], "kept": ID}
//
// `rows` are messages in the program's own form. Printed is what the plugin answered to a compaction, to a recall and to
// the end of a turn, as JSON; `compaction` is null where it left the compaction to the program.

import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

const [program, file] = process.argv.slice(2);
const { rows, kept } = JSON.parse(readFileSync(0, 'utf8'));
const source = readFileSync(file).toString('base64');
const plugin = await import(`data:text/javascript;base64,${source}`);

const hosts = { 'claude-code': claudeCode, opencode, pi, openclaw };
process.stdout.write(JSON.stringify(await hosts[program]()));
process.exit(0);

async function claudeCode() {
  const handlers = new Map();
  const started = [];
  const $ = {
    tool: { register: async () => undefined },
    session: { id: async () => 's1', model: async () => 'mock-model', messages: async () => rows },
    env: { get: async (name) => process.env[name] },
    fs: { read: (path) => readFile(path, 'utf8') },
    http: { fetch: (url, init) => fetch(url, init).then(async (answer) => ({ status: answer.status, text: await answer.text() })) },
    process: { run: async (words) => started.push(words) },
    clock: { after: (ms, done) => setTimeout(done, ms) },
  };
  plugin.register((name, ...more) => {
    const entry = { run: more.at(-1) };
    handlers.set(name, entry);
    return { catch: (instead) => (entry.instead = instead) };
  });
  const call = async (name, e) => {
    const next = async () => null;
    const { run, instead } = handlers.get(name);
    return run($, e, next).catch((problem) => {
      if (instead) return instead($, e, next);
      throw problem;
    });
  };
  const compaction = await call('session.compact', { trigger: 'auto', messages: rows });
  const recalled = await call('tool.call', { input: { query: 'depot waits seconds' } });
  await call('turn.complete', {});
  return { compaction, recalled: recalled.result, started };
}

async function pi() {
  const handlers = new Map();
  let tool;
  plugin.default({ on: (name, run) => handlers.set(name, run), registerTool: (made) => (tool = made) });
  const ctx = { sessionManager: { getSessionId: () => 's1', getBranch: () => rows }, model: { id: 'mock-model', contextWindow: 8000 } };
  const preparation = { firstKeptEntryId: kept, tokensBefore: 20000 };
  const answer = await handlers.get('session_before_compact')({ preparation, branchEntries: rows }, ctx);
  const recalled = await tool.execute('r1', { query: 'depot waits seconds' }, undefined, undefined, ctx);
  await handlers.get('agent_end')({}, ctx);
  return { compaction: answer?.compaction ?? null, recalled: recalled.content[0].text };
}

async function opencode() {
  const client = { session: { messages: async () => ({ data: rows }) } };
  const hooks = await plugin.ClewPlugin({ client });
  const output = {};
  await hooks['experimental.session.compacting']({ sessionID: 's1' }, output);
  const asked = [...rows.slice(0, -1), { ...rows.at(-1), info: { ...rows.at(-1).info, sessionID: 's1' } }];
  const request = { messages: asked };
  await hooks['experimental.chat.messages.transform']({}, request);
  const reply = { text: 'A summary by the model.' };
  await hooks['experimental.text.complete']({ sessionID: 's1' }, reply);
  await hooks.event({ event: { type: 'session.idle', properties: { sessionID: 's1' } } });
  const compaction = reply.text === 'A summary by the model.' ? null : { ...output, summary: reply.text, asked: request.messages.length };
  return { compaction };
}

async function openclaw() {
  let provider;
  plugin.default.register({ registerCompactionProvider: (made) => (provider = made) });
  const first = await provider.summarize({ messages: rows }).catch(() => null);
  const second = first && (await provider.summarize({ messages: rows.slice(0, 2), previousSummary: first }).catch(() => null));
  return { compaction: first && { summary: first, next: second } };
}
