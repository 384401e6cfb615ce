// Clew inside Claude Code: answers compactions with a fold of Clew, and offers recall of what was folded.
// Whenever Clew does not answer within LIMIT_MS, the compaction of Claude Code runs.

const LIMIT_MS = 2000;

export function register(on) {
  on('session.start', async ($, e, next) => {
    const started = await next(e);
    await $.tool.register({
      name: 'recall',
      isDeferred: false,
      description:
        'Search everything said or run in this session, also what a [Clew handoff] stands for, or open messages ' +
        'word for word. m12 in a handoff is message 12 (open: "m12"). Give query to search, or open to read.',
      inputSchema: {
        type: 'object',
        properties: {
          query: { type: 'string', description: 'words to look for' },
          open: { type: 'string', description: 'm12 or m12-m20' },
          around: { type: 'string', description: 'with open: words to show a long message around' },
        },
      },
    });
    // Started now, so that the first compaction does not wait for it.
    ask($, 'hello').catch(() => start($).catch(() => undefined));
    return started;
  });

  on('session.compact', async ($, e, next) => {
    const chat = toChat(e.messages);
    const folded = await within($, fold($, e, chat)).catch(() => null);
    const messages = folded && folded.changed ? toRows(folded.items, chat, e.messages) : [];
    if (messages.length === 0) return next(e);
    return { messages, tokensBefore: folded.tokens_before, tokensAfter: folded.tokens_after };
  }).catch(($, e, next) => next(e));

  // Messages since the last compaction are stored at the end of each turn.
  on('turn.complete', async ($, e, next) => {
    const done = await next(e);
    if (!e.agentId) await within($, record($, e)).catch(() => undefined);
    return done;
  });

  on('tool.call', { tool: 'mcp__clew__recall' }, async ($, e) => {
    const { query, open, around } = e.input ?? e;
    const asked = { ...(await identity($, e)), query, open, around };
    try {
      const answer = await within($, ask($, 'recall', asked));
      return answer.is_error ? { result: answer.text, isError: true } : { result: answer.text };
    } catch (problem) {
      return { result: `Clew does not answer (${problem.message}); go on without it.`, isError: true };
    }
  });
}

async function fold($, e, chat) {
  const asked = { ...(await identity($, e)), messages: chat.map((one) => one.message), focus: e.instructions };
  return ask($, 'fold', asked).catch((problem) => {
    // It may have ended: started again now, it is there for the next compaction.
    if (!problem.isAnswer) start($).catch(() => undefined);
    throw problem;
  });
}

async function record($, e) {
  const chat = toChat(await $.session.messages());
  if (chat.length) await ask($, 'record', { ...(await identity($, e)), messages: chat.map((one) => one.message) });
}

async function identity($, e) {
  const session = await $.session.id();
  const model = await $.session.model().catch(() => undefined);
  const name = typeof model === 'string' ? model : model?.id;
  return { program: 'claude-code', session: e.agentId ? `${session}.${e.agentId}` : session, model: name };
}

async function note($) {
  const home = (await $.env.get('CLEW_HOME')) || `${await $.env.get('HOME')}/.clew`;
  const read = await $.fs.read(`${home}/inside.json`);
  return JSON.parse(typeof read === 'string' ? read : read.text);
}

async function ask($, call, body) {
  const { url, token } = await note($);
  const answer = await $.http.fetch(`${url}/inside/v1/${call}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'x-clew-token': token, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
  });
  const text = typeof answer.text === 'function' ? await answer.text() : answer.text;
  if (answer.status !== 200) throw Object.assign(new Error(`status ${answer.status}`), { isAnswer: true });
  return JSON.parse(text);
}

async function start($) {
  const known = await note($).catch(() => ({}));
  await $.process.run(known.start?.length ? known.start : ['clew', 'setup', 'service']);
}

function within($, work) {
  return Promise.race([
    work,
    new Promise((_, reject) => $.clock.after(LIMIT_MS, () => reject(new Error('no answer in time')))),
  ]);
}

// Rows of Claude Code as chat messages; a row of several results becomes as many messages, each with its row.
function toChat(rows) {
  const chat = [];
  rows.forEach((row, at) => {
    for (const result of row.toolResults ?? []) {
      const message = { role: 'tool', tool_call_id: result.tool_use_id, content: result.text ?? '' };
      chat.push({ row: at, message: result.isError ? { ...message, is_error: true } : message });
    }
    const calls = (row.toolUses ?? []).map((use) => ({
      id: use.tool_use_id,
      type: 'function',
      function: { name: use.tool, arguments: JSON.stringify(use.input ?? {}) },
    }));
    if (!row.text && calls.length === 0) return;
    const message = { role: row.role, content: row.text || null };
    chat.push({ row: at, message: calls.length ? { ...message, tool_calls: calls } : message });
  });
  return chat;
}

// The messages of a fold as rows: a row that stays whole is given back as it is, with its handle.
function toRows(items, chat, rows) {
  const size = new Map();
  for (const { row } of chat) size.set(row, (size.get(row) ?? 0) + 1);
  const made = [];
  for (let at = 0; at < items.length; ) {
    const row = items[at].place === undefined ? undefined : chat[items[at].place].row;
    let end = at;
    while (row !== undefined && end < items.length && items[end].place !== undefined && chat[items[end].place].row === row) end += 1;
    if (row !== undefined && end - at === size.get(row)) {
      made.push(rows[row]);
      at = end;
      continue;
    }
    addMessage(made, items[at].message ?? chat[items[at].place].message);
    at += 1;
  }
  return made;
}

function addMessage(made, message) {
  const text = typeof message.content === 'string' ? message.content : (message.content ?? []).map((part) => part.text ?? '').join('\n');
  if (message.role === 'tool') {
    const result = { tool_use_id: message.tool_call_id, text, isError: message.is_error === true };
    const last = made.at(-1);
    // Results of one reply stand in one row.
    if (last && last.isWritten && last.toolResults.length) last.toolResults.push(result);
    else made.push({ role: 'user', text: '', toolUses: [], toolResults: [result], isWritten: true });
    return;
  }
  const toolUses = (message.tool_calls ?? []).map((call) => ({
    tool_use_id: call.id,
    tool: call.function.name,
    input: JSON.parse(call.function.arguments || '{}'),
  }));
  made.push({ role: message.role, text, toolUses, toolResults: [] });
}
