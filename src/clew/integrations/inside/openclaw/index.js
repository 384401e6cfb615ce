// Clew inside OpenClaw: a compaction provider whose summaries are folds of Clew.
// Whenever Clew does not answer within LIMIT_MS, this fails, and the built-in summariser of OpenClaw runs.

import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const LIMIT_MS = 2000;
// OpenClaw cuts the end of a longer summary.
const WINDOW = 8000;
// A provider does not get the session: the summary carries its name to the next compaction.
const NAME = /\(Clew keeps this conversation as ([\w-]+)\.\)/;

const plugin = {
  id: 'clew',
  name: 'Clew',
  description: 'Compactions are folds of Clew.',
  register(api) {
    ask('hello').catch(start);
    api.registerCompactionProvider({
      id: 'clew',
      label: 'Clew',
      async summarize({ messages, previousSummary, customInstructions }) {
        const session = NAME.exec(previousSummary ?? '')?.[1] ?? randomUUID();
        const asked = { program: 'openclaw', session, messages: toChat(messages), focus: customInstructions, is_more: true, window: WINDOW };
        const folded = await ask('fold', asked).catch((problem) => {
          if (!problem.isAnswer) start();
          throw problem;
        });
        if (!folded.changed) throw new Error('there was nothing to fold');
        return `(Clew keeps this conversation as ${session}.)\n\n${folded.text}`;
      },
    });
  },
};

export default plugin;

function toChat(rows) {
  const messages = [];
  for (const said of rows) {
    if (said.role === 'toolResult') {
      const result = { role: 'tool', tool_call_id: said.toolCallId, content: textOf(said.content) };
      messages.push(said.isError ? { ...result, is_error: true } : result);
    } else if (said.role === 'assistant') {
      const blocks = Array.isArray(said.content) ? said.content : [];
      const calls = blocks
        .filter((block) => block.type === 'toolCall')
        .map(({ id, name, arguments: given }) => ({ id, type: 'function', function: { name, arguments: JSON.stringify(given) } }));
      const content = textOf(said.content) || null;
      if (content || calls.length) messages.push({ role: 'assistant', content, ...(calls.length && { tool_calls: calls }) });
    } else if (textOf(said.content)) {
      messages.push({ role: 'user', content: textOf(said.content) });
    }
  }
  return messages;
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
