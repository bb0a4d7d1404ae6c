import { execFile, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 })

const hasTmux = spawnSync('tmux', ['-V']).status === 0
if (!hasTmux) console.warn('The tests of the session are skipped: tmux is not installed.')

const mainPath = fileURLToPath(new URL('../main.js', import.meta.url))
const run = promisify(execFile)

interface Call {
  readonly name: string
  readonly arguments: object
}

let requestCount = 0
/** A model server: the last message of the user selects the reply. */
const model = createServer(async (request, response) => {
  requestCount++
  const { messages, tools = [] } = JSON.parse(await text(request))
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const send = (delta: object, finish_reason: string | null = null) =>
    response.write(
      `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'm', choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
    )
  const say = async (words: string, delayMs = 5) => {
    for (const content of words.match(/\S+\s*/g) ?? []) {
      send({ role: 'assistant', content })
      await sleep(delayMs)
    }
  }
  const { words, delayMs, call } = replyTo(messages.at(-1), tools.length > 0)
  await say(words, delayMs)
  if (call !== undefined) {
    const { name, arguments: args } = call
    const fn = { name, arguments: JSON.stringify(args) }
    send({ tool_calls: [{ index: 0, id: `call_${messages.length}`, type: 'function', function: fn }] })
  }
  send({}, call === undefined ? 'stop' : 'tool_calls')
  response.end('data: [DONE]\n\n')
})

function replyTo(
  { role, content }: { role: string; content: unknown },
  hasTools: boolean,
): { words: string; delayMs?: number; call?: Call } {
  const said = JSON.stringify(content)
  if (!hasTools || role !== 'user') return { words: 'All of it is done.' }
  const terminal = (command: string) => ({
    name: 'terminal',
    arguments: { command, security_risk: 'HIGH', summary: 'a command' },
  })
  if (said.includes('danger')) return { words: 'I remove it.', call: terminal('rm -rf ./old') }
  if (said.includes('slow')) return { words: 'word '.repeat(2_000), delayMs: 100 }
  if (said.includes('note.txt'))
    return { words: said.includes('from the note') ? 'I read the note.' : 'No note.' }
  if (said.includes('plan')) {
    const task_list = [
      { title: 'Read the code', status: 'done' },
      { title: 'Write a test', status: 'in_progress' },
    ]
    return { words: '', call: { name: 'task_tracker', arguments: { command: 'plan', task_list } } }
  }
  return { words: `I heard ${said.length} characters.` }
}

let home: string
let modelUrl: string

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'slipway-session-test-'))
  await mkdir(join(home, 'project'))
  await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve))
  modelUrl = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`
})

/** A terminal of tmux with one program, driven by keys, read as a screen. */
class Screen {
  readonly #socket: string
  #columns: number

  private constructor(socket: string, columns: number) {
    this.#socket = socket
    this.#columns = columns
  }

  static async open(
    args: readonly string[],
    options: { columns?: number; env?: object } = {},
  ): Promise<Screen> {
    const { columns = 80, env = {} } = options
    const screen = new Screen(join(home, `tmux-${screens.length}`), columns)
    screens.push(screen)
    const inherited = Object.entries(process.env).filter(
      ([name]) => !/^(SLIPWAY|LLM|XDG|TMUX|NO_COLOR)/.test(name),
    )
    const command = [process.execPath, mainPath, ...args].map((part) => `'${part}'`).join(' ')
    await run(
      'tmux',
      [
        ...['-S', screen.#socket, '-f', '/dev/null', 'new-session', '-d', '-x', String(columns), '-y', '30'],
        ...['-c', join(home, 'project'), `${command}; echo "EXIT $?"; exec sleep 600`],
      ],
      { env: { ...Object.fromEntries(inherited), HOME: home, SLIPWAY_LOG_LEVEL: 'error', ...env } },
    )
    return screen
  }

  async keys(...keys: string[]): Promise<void> {
    await this.#tmux('send-keys', ...keys)
  }

  /** Types a text, waits until it is shown, and presses Enter. */
  async enter(words: string): Promise<void> {
    await this.#tmux('send-keys', '-l', words)
    await this.until(new RegExp(words.slice(-20).replaceAll(/[^\w ]/g, '.')))
    await this.keys('Enter')
  }

  async resize(columns: number): Promise<void> {
    this.#columns = columns
    await this.#tmux('resize-window', '-x', String(columns), '-y', '30')
  }

  async paste(words: string): Promise<void> {
    const file = join(home, 'paste')
    await writeFile(file, words)
    await this.#tmux('load-buffer', file)
    await this.#tmux('paste-buffer', '-p')
  }

  /** Waits until the screen and what scrolled away match; returns them. */
  async until(pattern: RegExp): Promise<string> {
    let seen = ''
    for (let tries = 0; tries < 600; tries++) {
      seen = await this.#tmux('capture-pane', '-p', '-J', '-S', '-500')
      if (pattern.test(seen)) return seen
      await sleep(200)
    }
    throw new Error(`The screen does not show ${pattern}:\n${seen}`)
  }

  /** Fails when a line is wider than the terminal. */
  async expectNoWrap(): Promise<void> {
    const lines = (await this.#tmux('capture-pane', '-p')).split('\n')
    const joined = (await this.#tmux('capture-pane', '-p', '-J')).split('\n')
    expect(joined.filter((line) => line.trimEnd().length > this.#columns)).toEqual([])
    expect(lines.length).toBeLessThanOrEqual(31)
  }

  async close(): Promise<void> {
    await this.#tmux('kill-server').catch(() => {})
  }

  async #tmux(...args: string[]): Promise<string> {
    const { stdout } = await run('tmux', ['-S', this.#socket, ...args], { maxBuffer: 1e8 })
    return stdout
  }
}

const screens: Screen[] = []
const modelEnv = () => ({ LLM_MODEL: 'openai-compatible/far', LLM_BASE_URL: modelUrl })
const serverPid = async () =>
  JSON.parse(await readFile(join(home, '.local/share/slipway/server.json'), 'utf8')).pid as number
const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function runCli(...args: string[]) {
  const env = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|XDG)_/.test(name))
  return await run(process.execPath, [mainPath, ...args], {
    cwd: join(home, 'project'),
    env: { ...Object.fromEntries(env), HOME: home, ...modelEnv() },
  })
}

afterEach(async () => {
  for (const screen of screens) await screen.close()
  await runCli('stop')
})

afterAll(async () => {
  model.closeAllConnections()
  model.close()
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
})

test.skipIf(!hasTmux)(
  'the first session asks for a model, tests it, keeps it, and leaves no process',
  async () => {
    const first = await Screen.open([])
    await first.until(/Which provider\?/)
    await first.keys('Up')
    await first.until(/● A local/)
    await first.keys('Enter')
    await first.until(/address of its API/)
    await first.enter(modelUrl)
    await first.until(/name of the model/)
    await first.enter('far')
    await first.until(/API key/)
    await first.keys('Enter')
    await first.until(/\n› *\n/)
    await first.enter('tell me something')
    await first.until(/I heard \d+ characters\.\n· finished/)
    await first.expectNoWrap()
    const pid = await serverPid()
    await first.keys('C-d')
    await first.until(/Come back with: slipway attach [0-9a-f]{8}\nEXIT 0/)
    expect(isAlive(pid)).toBe(false)

    // The next one needs no answers, and a joined one shows what was said.
    const second = await Screen.open(['attach', '--last'], { columns: 200 })
    await second.until(/tell me something\n[\s\S]*I heard[\s\S]*\n› *\n/)
    await second.enter('and more')
    await second.until(/and more\n[\s\S]*I heard \d+ characters\.\n· finished/)
  },
)

test.skipIf(!hasTmux)(
  'a question is answered with a key, for ever with another, and the reason of a no is asked',
  async () => {
    const screen = await Screen.open([], { env: modelEnv() })
    await screen.until(/\n› *\n/)
    await screen.enter('danger one')
    await screen.until(
      /Allow this\?\n +terminal \[HIGH\]: rm -rf \.\/old\n +y yes .* a always: rm -rf \.\/old/,
    )
    await screen.keys('n')
    await screen.until(/What should the agent know\?/)
    await screen.enter('keep the files')
    await screen.until(/keep the files[\s\S]*· finished/)
    await screen.enter('danger two')
    await screen.until(/danger two[\s\S]*Allow this\?/)
    await screen.keys('a')
    await screen.until(/danger two[\s\S]*· finished/)
    await screen.enter('danger three')
    const shown = await screen.until(/danger three[\s\S]*· finished/)
    expect(shown.slice(shown.indexOf('danger three'))).not.toContain('waits for confirmation')
  },
)

test.skipIf(!hasTmux)('messages wait while the agent works, and Escape interrupts it', async () => {
  const screen = await Screen.open([], { columns: 200, env: modelEnv() })
  await screen.until(/\n› *\n/)
  await screen.enter('slow one')
  await screen.until(/word word[\s\S]*● working/)
  await screen.enter('later')
  await screen.until(/queued: later/)
  await screen.resize(80)
  await screen.keys('Escape')
  await screen.until(/· paused[\s\S]*interrupted ·/)
  await screen.enter('make a plan')
  await screen.until(/✓ Read the code\n +▸ Write a test\n/)
  await screen.expectNoWrap()
})

test.skipIf(!hasTmux)('a server that is killed comes back, and the session goes on', async () => {
  const screen = await Screen.open([], { env: modelEnv() })
  await screen.until(/\n› *\n/)
  await screen.enter('slow one')
  await screen.until(/word word/)
  const pid = await serverPid()
  const before = requestCount
  process.kill(pid, 'SIGKILL')
  await vi.waitFor(async () => expect(await serverPid()).not.toBe(pid), { timeout: 60_000, interval: 200 })
  // The run that was cut goes on: the model is asked again.
  await vi.waitFor(() => expect(requestCount).toBeGreaterThan(before), { timeout: 60_000, interval: 200 })
  await screen.keys('Escape')
  await screen.until(/· paused[\s\S]*interrupted ·/)
  await screen.enter('hello again')
  await screen.until(/hello again\n[\s\S]*I heard \d+ characters\.\n· finished/)
})

test.skipIf(!hasTmux)('a terminal that is closed leaves no process', async () => {
  const screen = await Screen.open([], { env: modelEnv() })
  await screen.until(/\n› *\n/)
  const pid = await serverPid()
  await screen.close()
  await vi.waitFor(() => expect(isAlive(pid)).toBe(false), { timeout: 60_000, interval: 200 })
})

test.skipIf(!hasTmux)('a file is named with @, and a paste of a megabyte is one message', async () => {
  await writeFile(join(home, 'project', 'note.txt'), 'from the note')
  const screen = await Screen.open([], { env: modelEnv() })
  await screen.until(/\n› *\n/)
  await screen.keys('-l', 'read @no')
  await screen.until(/@note\.txt/)
  await screen.keys('Tab')
  await screen.until(/› read @note\.txt/)
  await screen.keys('Enter')
  await screen.until(/I read the note\./)
  await screen.paste('a line of text\n'.repeat(70_000))
  await screen.until(/\[Pasted text 1: 70001 lines, 1050000 characters\]/)
  await screen.keys('C-c')
  await screen.until(/\n› *\n/)
})

test.skipIf(!hasTmux)('without a terminal it is a program', async () => {
  const { stdout } = await runCli('--print', 'tell me')
  expect(stdout).toMatch(/I heard \d+ characters\./)
  const ended = await runCli('--print', ' ').catch((error: { code: number; stderr: string }) => error)
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('the input is empty') })
})
