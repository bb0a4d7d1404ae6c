import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { compiledCode } from './compiled-code.ts'
import { freePort } from './free-port.ts'
import { MockProvider, type ModelReply } from './mock-provider.ts'
import { root } from './readme.ts'

const cliMain = resolve(root, 'packages/cli/src/main.js')
/** Where a page downloads an MCP server, this one is started. */
const mcpServer = resolve(root, 'conformance/support/stdio-mcp-server.ts')

/**
 * What the comment before a block says about its run. Readers of the page do not see it:
 *
 *     <!-- test
 *     reply: {"text": "Done."}
 *     prints: ^Done
 *     -->
 */
export interface BlockTest {
  /** Why no test runs the block. */
  readonly skip: string | undefined
  /** Shell commands before the block. */
  readonly setup: string
  /** Replies of the model to the block, in order; the last one is repeated. */
  readonly replies: readonly ModelReply[]
  /** Patterns of what is printed; a dot is also a line feed. */
  readonly prints: readonly RegExp[]
  /** The only exit code besides 0 that a command of the block may have. */
  readonly exit: number
}

/** A block of shell commands of a guide. */
export interface GuideBlock {
  readonly line: number
  readonly text: string
  readonly test: BlockTest
}

/** From the root: `docs/guide/install.md`. */
export const guidePages: readonly string[] = globSync(['docs/guide/*.md'], { cwd: root }).toSorted()

const blockPattern = /(?:^<!-- test\n(?<test>(?:(?!-->)[\s\S])*?)-->\n+)?^```sh\n(?<text>[\s\S]*?)^```$/gm

/** The shell blocks of a page. */
export function readGuide(page: string): GuideBlock[] {
  const content = readFileSync(join(root, page), 'utf8')
  return [...content.matchAll(blockPattern)].map(({ index, groups }) => ({
    line: content.slice(0, index).split('\n').length,
    text: groups?.text ?? '',
    test: parseTest(groups?.test ?? ''),
  }))
}

function parseTest(text: string): BlockTest {
  const values = new Map<string, string[]>()
  for (const line of text.split('\n').filter((part) => part.trim() !== '')) {
    const [, name = '', value = ''] = /^(\w+): (.*)$/.exec(line) ?? []
    if (!['skip', 'setup', 'reply', 'prints', 'exit'].includes(name))
      throw new Error(`Not understood in a comment for tests: ${line}`)
    values.set(name, [...(values.get(name) ?? []), value])
  }
  const all = (name: string) => values.get(name) ?? []
  return {
    skip: all('skip')[0],
    setup: all('setup').join('\n'),
    replies: all('reply').map((json) => JSON.parse(json)),
    prints: all('prints').map((pattern) => new RegExp(pattern, 'ms')),
    exit: Number(all('exit')[0] ?? 0),
  }
}

export interface BlockResult {
  readonly output: string
  /** A line for each command whose exit code is neither 0 nor the expected one. */
  readonly failures: readonly string[]
}

/**
 * A user at a new machine who follows a page: a home directory with a git repository `project` in it, the
 * installed command, and a model on loopback in the place of each provider. Variables, functions and the
 * directory of one block are there in the next one.
 */
export class GuideReader implements AsyncDisposable {
  readonly provider: MockProvider
  readonly #directory: string
  readonly #port: number
  readonly #env: Readonly<Record<string, string>>
  readonly #texts: Readonly<Record<string, string>>

  private constructor(
    provider: MockProvider,
    place: { directory: string; port: number },
    env: Readonly<Record<string, string>>,
    texts: Readonly<Record<string, string>>,
  ) {
    this.provider = provider
    this.#directory = place.directory
    this.#port = place.port
    this.#env = env
    this.#texts = texts
  }

  /** `env` is added to the environment; `texts` are replaced in each block. */
  static async open(
    env: Readonly<Record<string, string>> = {},
    texts: Readonly<Record<string, string>> = {},
  ): Promise<GuideReader> {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-guide-')))
    const reader = new GuideReader(
      await MockProvider.open(),
      { directory, port: await freePort() },
      env,
      texts,
    )
    await reader.#installCommands()
    await reader.#run('git init -q && git commit -q --allow-empty -m start')
    return reader
  }

  /** Runs a block, and what stands before it. */
  async runBlock({ text, test }: GuideBlock): Promise<BlockResult> {
    this.provider.replies = test.replies.length === 0 ? [{ text: 'Done.' }] : [...test.replies]
    const texts = {
      '127.0.0.1:8000': `127.0.0.1:${this.#port}`,
      'localhost:8000': `127.0.0.1:${this.#port}`,
      '127.0.0.1:11434': new URL(this.provider.url).host,
      ...this.#texts,
    }
    let script = `${test.setup}\n${text}`
    // The server of the page listens on its own port.
    if (/^slipway serve/m.test(text)) script += `\nSLIPWAY_URL=http://127.0.0.1:${this.#port}\n`
    for (const [from, to] of Object.entries(texts)) script = script.replaceAll(from, to)
    const trap = `trap 'code=$?; [ $code -eq ${test.exit} ] || echo "FAILED $code: $BASH_COMMAND" >&2' ERR`
    const output = await this.#run(`set -E\n${trap}\n${script}`)
    return { output, failures: output.split('\n').filter((line) => line.startsWith('FAILED ')) }
  }

  /** Stops the servers of the page. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#run('slipway stop >/dev/null; for pid in $(cat ~/../pids); do kill $pid; done; wait')
    const pids = await readFile(join(this.#directory, 'pids'), 'utf8')
    for (const pid of pids.split('\n').filter(Boolean).map(Number)) await waitForEnd(pid)
    await this.provider[Symbol.asyncDispose]()
    await rm(this.#directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
  }

  /** `slipway serve` runs in the background, as in another terminal; commands that follow a log are ended. */
  async #installCommands(): Promise<void> {
    const commands = {
      slipway: `case "$1" in
  serve)
    shift
    node ${cliMain} serve --port ${this.#port} --no-console "$@" > ~/../serve.log 2>&1 &
    echo $! >> ~/../pids
    for i in $(seq 600); do
      command -p curl -sf http://127.0.0.1:${this.#port}/ready > ~/../ready && [ -s ~/../serve.log ] && break
      sleep 0.2
    done
    cat ~/../serve.log ;;
  sandbox-server) ;;
  tail|logs) timeout 8 node ${cliMain} "$@"; code=$?; [ $code -eq 124 ] || exit $code ;;
  *) exec node ${cliMain} "$@" ;;
esac`,
      npx: `if [ "$1" = -y ]; then exec node ${mcpServer}; fi
shift; exec slipway "$@"`,
      curl: `command -p curl --max-time 8 "$@"; code=$?; [ $code -eq 28 ] || exit $code`,
    }
    const bin = join(this.#directory, 'bin')
    await mkdir(bin)
    await mkdir(join(this.#directory, 'home/project'), { recursive: true })
    await writeFile(join(this.#directory, 'pids'), '')
    // As if a session were open: the private server is not started again for each command.
    const sessions = join(this.#directory, 'home/.local/share/slipway/sessions')
    await mkdir(sessions, { recursive: true })
    await writeFile(join(sessions, String(process.pid)), '')
    for (const [name, script] of Object.entries(commands)) {
      await writeFile(join(bin, name), `#!/bin/bash\n${script}\n`)
      await chmod(join(bin, name), 0o755)
    }
  }

  /** Runs a script; standard output and errors in one text. */
  async #run(script: string): Promise<string> {
    const home = join(this.#directory, 'home')
    const state = join(this.#directory, 'state')
    const child = spawn(
      'bash',
      ['-c', `[ -f ${state} ] && . ${state}; set -a\n${script}\n{ export -p; echo "cd '$PWD'"; } > ${state}`],
      {
        cwd: join(home, 'project'),
        timeout: 240_000,
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          PATH: [join(this.#directory, 'bin'), resolve(process.execPath, '..'), process.env.PATH].join(
            delimiter,
          ),
          HOME: home,
          ...compiledCode,
          NO_COLOR: '1',
          LLM_BASE_URL: this.provider.url,
          SLIPWAY_LOG_LEVEL: 'error',
          GIT_AUTHOR_NAME: 'A',
          GIT_AUTHOR_EMAIL: 'a@example.org',
          GIT_COMMITTER_NAME: 'A',
          GIT_COMMITTER_EMAIL: 'a@example.org',
          ...this.#env,
        },
      },
    )
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk
      })
    }
    const { promise, resolve: done, reject } = Promise.withResolvers<void>()
    child.once('error', reject).once('exit', () => setTimeout(done, 100))
    await promise
    return output
  }
}

async function waitForEnd(pid: number): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    try {
      process.kill(pid, 0)
    } catch {
      return
    }
    await new Promise((done) => setTimeout(done, 100))
  }
  process.kill(pid, 'SIGKILL')
}
