// Clew inside opencode: the summary of a compaction is a fold of Clew, and recall brings back what was folded.
// Whenever Clew does not answer within LIMIT_MS, the compaction of opencode runs.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const LIMIT_MS = 2000;
const SHORT_PROMPT = 'Reply with the single word OK.';

export const ClewPlugin = async ({ client }) => {
  // By session: the handoff that becomes its summary, and whether the model was asked for it.
  const folds = new Map();
  // Started now, so that the first compaction does not wait for it.
  ask('hello').catch(start);

  return {
    'experimental.session.compacting': async ({ sessionID }, output) => {
      folds.delete(sessionID);
      try {
        const { data } = await client.session.messages({ path: { id: sessionID } });
        const { messages, starts } = toChat(data);
        const tail = data.at(-1)?.parts.find((part) => part.type === 'compaction')?.tail_start_id;
        const answer = await ask('fold', { ...identity(sessionID, data), messages, kept_from: starts.get(tail) });
        if (!answer.changed || !answer.text) return;
        folds.set(sessionID, answer.text);
        // The model is asked all the same; it has next to nothing to read and to write.
        output.prompt = SHORT_PROMPT;
      } catch (problem) {
        if (!problem.isAnswer) start();
      }
    },

    // Messages since the last compaction are stored when the agent has finished.
    event: async ({ event }) => {
      if (event.type !== 'session.idle') return;
      const { sessionID } = event.properties;
      try {
        const { data } = await client.session.messages({ path: { id: sessionID } });
        const { messages } = toChat(data);
        if (messages.length) await ask('record', { ...identity(sessionID, data), messages });
      } catch {
        // Stored with the next turn.
      }
    },

    'experimental.chat.messages.transform': async (_, output) => {
      const last = output.messages.at(-1);
      const session = last?.info?.sessionID;
      const isAsked = last?.parts?.some((part) => part.type === 'text' && part.text === SHORT_PROMPT);
      const isCompaction = output.messages.some((one) => one.parts?.some((part) => part.type === 'compaction'));
      if (folds.has(session) && (isAsked || isCompaction)) output.messages.splice(0, output.messages.length - 1);
    },

    'experimental.text.complete': async ({ sessionID }, output) => {
      if (!folds.has(sessionID)) return;
      output.text = folds.get(sessionID);
      folds.delete(sessionID);
    },
  };
};

function identity(session, rows) {
  const reply = rows.findLast((row) => row.info.role === 'assistant' && row.info.modelID);
  return { program: 'opencode', session, model: reply?.info.modelID };
}

// Rows of opencode as chat messages, and where each row begins. Its own summaries are none: the messages that they
// stand for are there too.
function toChat(rows) {
  const messages = [];
  const starts = new Map();
  for (const { info, parts } of rows) {
    starts.set(info.id, messages.length);
    if (info.summary === true || parts.some((part) => part.type === 'compaction')) continue;
    if (info.role === 'user') {
      const content = parts.filter((part) => part.type === 'text' && !part.ignored).map((part) => part.text).join('\n');
      if (content) messages.push({ role: 'user', content });
      continue;
    }
    for (const step of stepsOf(parts)) addStep(messages, step);
  }
  return { messages, starts };
}

function stepsOf(parts) {
  const steps = [[]];
  for (const part of parts) {
    if (part.type === 'step-start' && steps.at(-1).length) steps.push([]);
    else steps.at(-1).push(part);
  }
  return steps;
}

function addStep(messages, parts) {
  const text = parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n');
  const tools = parts.filter((part) => part.type === 'tool' && ['completed', 'error'].includes(part.state?.status));
  if (!text && !tools.length) return;
  const calls = tools.map(({ callID, tool, state }) => ({
    id: callID,
    type: 'function',
    function: { name: tool, arguments: JSON.stringify(state.input ?? {}) },
  }));
  messages.push({ role: 'assistant', content: text || null, ...(calls.length && { tool_calls: calls }) });
  for (const { callID, state } of tools) {
    const result = { role: 'tool', tool_call_id: callID, content: state.output ?? state.error ?? '' };
    messages.push(state.status === 'error' ? { ...result, is_error: true } : result);
  }
}

function note() {
  const home = process.env.CLEW_HOME || join(homedir(), '.clew');
  return JSON.parse(readFileSync(join(home, 'inside.json'), 'utf8'));
}

async function ask(call, body) {
  const { url, token } = note();
  const answer = await fetch(`${url}/inside/v1/${call}`, {
    method: body ? 'POST' : 'GET',
    headers: { 'x-clew-token': token, 'content-type': 'application/json' },
    body: body && JSON.stringify(body),
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  if (!answer.ok) throw Object.assign(new Error(`status ${answer.status}`), { isAnswer: true });
  return answer.json();
}

function start() {
  let command = ['clew', 'setup', 'service'];
  try {
    command = note().start?.length ? note().start : command;
  } catch {
    // Nothing was noted yet: the program on the path is taken.
  }
  const child = spawn(command[0], command.slice(1), { detached: true, stdio: 'ignore' });
  child.on('error', () => undefined);
  child.unref();
}
