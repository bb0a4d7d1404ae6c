import { execFile, spawn, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { commandMain } from '@slipway/shared/process/testing'

export const hasTmux = spawnSync('tmux', ['-V']).status === 0
if (!hasTmux) console.warn('SKIPPED: the session in the terminal; Debian: apt-get install tmux')

const run = promisify(execFile)

interface Call {
  readonly name: string
  readonly arguments: object
}

/**
 * A model server: the last message of the user selects the reply; the model `status-504` answers with 504.
 */
function createModel(onRequest: () => void): Server {
  return createServer(async (request, response) => {
    if (request.method === 'GET') return response.writeHead(404).end()
    onRequest()
    const { model, messages, tools = [] } = JSON.parse(await text(request))
    const [, status] = /^status-(\d+)$/.exec(model) ?? []
    if (status !== undefined) {
      response.writeHead(Number(status), { 'content-type': 'application/json' })
      return response.end(JSON.stringify({ error: { message: `Busy with ${status}` } }))
    }
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
}

function replyTo(
  { role, content }: { role: string; content: unknown },
  hasTools: boolean,
): { words: string; delayMs?: number; call?: Call } {
  const said = JSON.stringify(content)
  const terminal = (command: string) => ({
    name: 'terminal',
    arguments: { command, security_risk: 'HIGH', summary: 'a command' },
  })
  if (role === 'tool' && said.includes('first of two'))
    return { words: 'Now the second.', call: terminal('touch second') }
  if (!hasTools || role !== 'user') return { words: 'All of it is done.' }
  if (said.includes('do both'))
    return { words: 'The first.', call: terminal("echo 'first  of two' | tr -s ' '") }
  const [, length] = /hidden part of (\d+)/.exec(said) ?? []
  if (length !== undefined)
    return { words: '', call: terminal(`${'true && '.repeat(Number(length) / 8)}rm -rf ./hidden`) }
  const [, count] = /(\d+) numbered lines/.exec(said) ?? []
  if (count !== undefined) {
    const lines = Array.from({ length: Number(count) }, (_, n) => `echo line ${n + 1}`)
    return { words: '', call: terminal(`${lines.join('\n')}\nrm -rf ./hidden`) }
  }
  if (said.includes('nasty'))
    return { words: '', call: terminal('ls\rrm \u202e-rf\u200b ./a\tb\u001b[2K # \b') }
  if (said.includes('an edit')) {
    const [old_str, new_str] = ['one\ntwo\nthree\n', 'one\n2\nthree\n']
    const edit = { command: 'str_replace', path: '/tmp/none/of.txt', old_str, new_str }
    return {
      words: '',
      call: { name: 'file_editor', arguments: { ...edit, security_risk: 'HIGH', summary: 's' } },
    }
  }
  if (said.includes('danger')) return { words: 'I remove it.', call: terminal('rm -rf ./old') }
  if (said.includes('slow')) return { words: 'word '.repeat(2_000), delayMs: 100 }
  if (said.includes('brief')) return { words: 'word '.repeat(60), delayMs: 100 }
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

export interface ScreenOptions {
  readonly columns?: number
  readonly rows?: number
  readonly env?: object
}

/** A terminal of tmux with one program, driven by keys, read as a screen. */
export class Screen {
  readonly #home: string
  readonly #socket: string
  #columns: number

  private constructor(home: string, socket: string, columns: number) {
    this.#home = home
    this.#socket = socket
    this.#columns = columns
  }

  static async open(
    home: string,
    socket: string,
    args: readonly string[],
    options: ScreenOptions = {},
  ): Promise<Screen> {
    const { columns = 80, rows = 30, env = {} } = options
    const screen = new Screen(home, socket, columns)
    const command = [process.execPath, commandMain, ...args].map((part) => `'${part}'`).join(' ')
    await run(
      'tmux',
      [
        ...['-S', socket, '-f', '/dev/null', 'new-session', '-d', '-x', String(columns), '-y', String(rows)],
        ...['-c', join(home, 'project'), `${command}; echo "EXIT $?"; exec sleep 600`],
      ],
      { env: { ...ownEnvironment(home), SLIPWAY_LOG_LEVEL: 'error', ...env } },
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
    const file = join(this.#home, 'paste')
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
    const wide = joined.filter((line) => line.trimEnd().length > this.#columns)
    if (wide.length > 0 || lines.length > 31)
      throw new Error(`Wider than ${this.#columns} columns, or too high:\n${wide.join('\n')}`)
  }

  /** What is on the screen now. */
  async visible(): Promise<string> {
    return await this.#tmux('capture-pane', '-p')
  }

  /** The screen with its colours, as escape sequences. */
  async capture(): Promise<string> {
    return await this.#tmux('capture-pane', '-p', '-e')
  }

  async close(): Promise<void> {
    await this.#tmux('kill-server').catch(() => {})
  }

  async #tmux(...args: string[]): Promise<string> {
    const { stdout } = await run('tmux', ['-S', this.#socket, ...args], { maxBuffer: 1e8 })
    return stdout
  }
}

/** Without the settings and the terminal of whoever runs the tests. */
function ownEnvironment(home: string): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(SLIPWAY|LLM|XDG|TMUX|NO_COLOR)/.test(name),
  )
  return { ...Object.fromEntries(inherited), HOME: home }
}

/** A user with a home directory, a folder `project` in it and a model; terminals are screens of tmux. */
export class SessionFixture {
  readonly home: string
  readonly #model: Server
  readonly #screens: Screen[] = []
  requestCount = 0

  private constructor(home: string) {
    this.home = home
    this.#model = createModel(() => this.requestCount++)
  }

  static async open(): Promise<SessionFixture> {
    const fixture = new SessionFixture(await mkdtemp(join(tmpdir(), 'slipway-session-test-')))
    await mkdir(join(fixture.home, 'project'))
    await new Promise<void>((resolve) => fixture.#model.listen(0, '127.0.0.1', resolve))
    return fixture
  }

  get modelUrl(): string {
    return `http://127.0.0.1:${(this.#model.address() as AddressInfo).port}/v1` // it listens on a port
  }

  get modelEnv() {
    return { LLM_MODEL: 'openai-compatible/far', LLM_BASE_URL: this.modelUrl }
  }

  async openScreen(args: readonly string[], options: ScreenOptions = {}): Promise<Screen> {
    const socket = join(this.home, `tmux-${this.#screens.length}`)
    const screen = await Screen.open(this.home, socket, args, options)
    this.#screens.push(screen)
    return screen
  }

  get project(): string {
    return join(this.home, 'project')
  }

  async runCli(...args: string[]) {
    return await run(process.execPath, [commandMain, ...args], this.#place)
  }

  /** Starts the command with pipes, as an editor does. */
  spawnCli(args: readonly string[], env: Readonly<Record<string, string>> = this.modelEnv) {
    return spawn(process.execPath, [commandMain, ...args], {
      cwd: this.project,
      env: { ...ownEnvironment(this.home), SLIPWAY_LOG_LEVEL: 'error', ...env },
    })
  }

  get #place() {
    return { cwd: this.project, env: { ...ownEnvironment(this.home), ...this.modelEnv } }
  }

  /** Of the private server. */
  async serverPid(): Promise<number> {
    return JSON.parse(await readFile(join(this.home, '.local/share/slipway/server.json'), 'utf8')).pid
  }

  /** Of the processes that use the private server. */
  async sessionPids(): Promise<number[]> {
    return (await readdir(join(this.home, '.local/share/slipway/sessions'))).map(Number)
  }

  /** Closes the terminals and stops the private server. */
  async reset(): Promise<void> {
    for (const screen of this.#screens) await screen.close()
    await this.runCli('stop')
  }

  async dispose(): Promise<void> {
    this.#model.closeAllConnections()
    this.#model.close()
    await rm(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
