import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { agentServerCommand, buildAgent, print, printRun } from '@slipway/cli/toolkit'
import { Client } from '@slipway/client'
import { type DemoContext, printHeading, verify } from './context.ts'

interface CrashOptions {
  readonly root: string
  /** Of the server; `SLIPWAY_SESSION_API_KEY` is its key. */
  readonly env: Readonly<Record<string, string | undefined>>
}

const finalText = 'The server was killed, the log has every step, and the work is done.'

/**
 * Kills its own server in the middle of a tool call, starts it again on the same data and continues the run.
 * The model is scripted, so that the moment is certain.
 */
export async function showCrash(stage: DemoContext, { root, env }: CrashOptions): Promise<void> {
  const { signal } = stage
  await printHeading(stage, 'The server is killed in the middle of a tool call')
  const data = join(root, 'killed')
  const workspace = join(root, 'killed-project')
  await mkdir(workspace)
  const first = await startServer({ root, env }, data, signal)
  let before: readonly string[] = []
  try {
    const { id } = await first.client.call('createConversation', { body: request(workspace), signal })
    await waitFor('the command runs', signal, () => existsSync(join(workspace, 'started')))
    before = await readLog(first.client, id, signal)
    first.child.kill('SIGKILL')
    await first.exit
    await print(`kill -9: the command had begun, ${before.length} events were stored.\n`)
    const second = await startServer({ root, env }, data, signal)
    try {
      await continueRun(second.client, id, { after: before.length, workspace, signal })
      const after = await readLog(second.client, id, signal)
      verify(
        before.every((text, index) => text === after[index]),
        'a killed server loses and changes no event',
      )
      const { response } = await second.client.call('finalResponse', {
        params: { conversation_id: id },
        signal,
      })
      verify(response === finalText, 'the run continues after the crash')
      await print(`The same ${before.length} events, then ${after.length - before.length} more.\n`)
    } finally {
      second.child.kill('SIGTERM')
      await second.exit
    }
  } finally {
    first.child.kill('SIGKILL')
    await first.exit
  }
}

function request(workspace: string) {
  const call = (name: string, input: object) => ({ name, arguments: { ...input, security_risk: 'LOW' } })
  const command = 'echo yes > started && sleep 20'
  const turns = [
    {
      text: 'This command takes a while.',
      tool_calls: [call('terminal', { command, summary: 'Work for long' })],
    },
    {
      text: 'It was cut off. I look at what there is.',
      tool_calls: [call('terminal', { command: 'cat started', summary: 'Look' })],
    },
    { text: '', tool_calls: [{ name: 'finish', arguments: { message: finalText } }] },
  ]
  const script = [...turns, { text: 'A killed server', side: true }]
  return {
    agent: buildAgent({ model: 'scripted/demo', usage_id: 'agent', script }),
    workspace: { working_dir: workspace },
    initial_message: {
      content: [{ type: 'text' as const, text: 'Do something that takes long.' }],
      run: true,
    },
  }
}

/** Continues a run that the crash has paused, and shows it until nothing runs. */
async function continueRun(
  client: Client,
  id: string,
  {
    after,
    workspace,
    signal,
  }: { readonly after: number; readonly workspace: string; readonly signal: AbortSignal },
): Promise<void> {
  const params = { conversation_id: id }
  const { execution_status } = await client.call('getConversation', { params, signal })
  if (execution_status === 'paused') await client.call('runConversation', { params, signal })
  for await (const _ of printRun({ client, isJson: false, signal }, id, { after, directory: workspace }));
}

async function readLog(client: Client, id: string, signal: AbortSignal): Promise<string[]> {
  const response = new Response(await client.exportEvents(id, { signal }))
  return (await response.text()).trimEnd().split('\n')
}

async function startServer({ root, env }: CrashOptions, data: string, signal: AbortSignal) {
  const [program = '', ...args] = agentServerCommand().command
  const flags = ['--json', '--no-console', '--port', '0', '--data', data]
  const child: ChildProcess = spawn(program, [...args, ...flags], {
    ...{ cwd: root, env, stdio: ['ignore', 'pipe', 'inherit'] },
  })
  const exit = once(child, 'exit')
  exit.catch(() => undefined)
  // A killed demo leaves no server.
  process.once('exit', () => child.kill('SIGKILL'))
  const line = await firstLine(child, signal)
  const { url }: { url: string } = JSON.parse(line)
  return { child, exit, client: new Client({ url, sessionApiKey: env.SLIPWAY_SESSION_API_KEY }) }
}

async function firstLine(child: ChildProcess, signal: AbortSignal): Promise<string> {
  if (child.stdout === null) throw new Error('The server has no output.')
  const lines = createInterface({ input: child.stdout })
  try {
    const [line] = await Promise.race([
      once(lines, 'line', { signal }),
      once(child, 'exit', { signal }).then(() => Promise.reject(new Error('The server stopped.'))),
    ])
    return line
  } finally {
    lines.close()
    child.stdout.resume()
  }
}

async function waitFor(name: string, signal: AbortSignal, isTrue: () => boolean): Promise<void> {
  for (let attempt = 0; !isTrue(); attempt++) {
    verify(attempt < 1_200, name)
    await sleep(50, undefined, { signal })
  }
}
