// Clew inside pi: answers compactions with a fold of Clew, and offers recall of what was folded.
// Whenever Clew does not answer within LIMIT_MS, the compaction of pi runs.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const LIMIT_MS = 2000;

export default function (pi) {
  pi.on('session_start', () => {
    // Started now, so that the first compaction does not wait for it.
    ask('hello').catch(start);
  });

  pi.on('session_before_compact', async (event, ctx) => {
    const { preparation, branchEntries, customInstructions } = event;
    const { messages, entries } = toChat(branchEntries);
    const first = entries.indexOf(preparation.firstKeptEntryId);
    const asked = {
      ...identity(ctx),
      messages,
      tokens: preparation.tokensBefore,
      focus: customInstructions,
      kept_from: first < 0 ? messages.length : first,
    };
    const folded = await ask('fold', asked).catch((problem) => {
      if (!problem.isAnswer) start();
      return null;
    });
    if (!folded?.changed || !folded.text) return;
    // A result is never without its call: the program cuts before a message of the user or the model.
    const firstKeptEntryId = entries[folded.kept_from] ?? preparation.firstKeptEntryId;
    return { compaction: { summary: folded.text, firstKeptEntryId, tokensBefore: preparation.tokensBefore } };
  });

  // Messages since the last compaction are stored when the agent has finished.
  pi.on('agent_end', async (event, ctx) => {
    const { messages } = toChat(ctx.sessionManager.getBranch());
    if (messages.length) await ask('record', { ...identity(ctx), messages }).catch(() => undefined);
  });

  pi.registerTool({
    name: 'clew_recall',
    label: 'Recall',
    description:
      'Search everything said or run in this session, also what a [Clew handoff] stands for, or open messages ' +
      'word for word. m12 in a handoff is message 12 (open: "m12"). Give query to search, or open to read.',
    parameters: {
      type: 'object',
      properties: {
        query: { type: 'string', description: 'words to look for' },
        open: { type: 'string', description: 'm12 or m12-m20' },
        around: { type: 'string', description: 'with open: words to show a long message around' },
      },
    },
    async execute(id, wanted, signal, onUpdate, ctx) {
      const text = await ask('recall', { ...identity(ctx), ...wanted }).then(
        (answer) => answer.text,
        (problem) => `Clew does not answer (${problem.message}); go on without it.`,
      );
      return { content: [{ type: 'text', text }], details: {} };
    },
  });
}

function identity(ctx) {
  return {
    program: 'pi',
    session: ctx.sessionManager.getSessionId(),
    model: ctx.model?.id,
    window: ctx.model?.contextWindow,
  };
}

// Entries of a branch as chat messages, and the source entry of each one. Earlier summaries are none: the
// messages that they stand for are there too.
function toChat(branch) {
  const messages = [];
  const entries = [];
  const add = (entry, message) => {
    messages.push(message);
    entries.push(entry.id);
  };
  for (const entry of branch) {
    if (entry.type === 'custom_message') add(entry, { role: 'user', content: textOf(entry.content) });
    if (entry.type !== 'message') continue;
    const said = entry.message;
    if (said.role === 'toolResult') {
      const result = { role: 'tool', tool_call_id: said.toolCallId, content: textOf(said.content) };
      add(entry, said.isError ? { ...result, is_error: true } : result);
    } else if (said.role === 'assistant') {
      const calls = said.content
        .filter((block) => block.type === 'toolCall')
        .map(({ id, name, arguments: given }) => ({ id, type: 'function', function: { name, arguments: JSON.stringify(given) } }));
      const content = textOf(said.content) || null;
      if (content || calls.length) add(entry, { role: 'assistant', content, ...(calls.length && { tool_calls: calls }) });
    } else if (said.role === 'bashExecution') {
      add(entry, { role: 'user', content: `Ran ${said.command}:\n${said.output}` });
    } else if (said.role === 'user' || said.role === 'custom') {
      add(entry, { role: 'user', content: textOf(said.content) });
    }
  }
  return { messages, entries };
}

function textOf(content) {
  if (typeof content === 'string') return content;
  return (content ?? []).filter((block) => block.type === 'text').map((block) => block.text).join('\n');
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
