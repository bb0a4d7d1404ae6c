import { execFile, spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** What the request benchmark installs; nothing of it is a dependency of this repository. */
const packages = [
  '@mariozechner/pi-coding-agent@0.73.1',
  'opencode-ai@1.18.33',
  '@openai/codex@0.171.0',
  '@anthropic-ai/claude-code@2.1.332',
  'gpt-tokenizer@3.4.0',
]

/** Installs packages from npm without their scripts. Rejects when the registry is not reachable. */
export async function installPackages(directory: string, names: readonly string[] = packages): Promise<void> {
  await writeFile(join(directory, 'package.json'), '{"private": true}')
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save', ...names]
  await run('npm', args, { cwd: directory, timeout: 600_000, maxBuffer: 10_000_000 })
}

/** Tokens of a text in o200k, by an installed gpt-tokenizer. */
export async function loadTokenizer(directory: string): Promise<(text: string) => number> {
  const file = join(directory, 'node_modules/gpt-tokenizer/esm/encoding/o200k_base.js')
  const { encode }: { encode(text: string): number[] } = await import(pathToFileURL(file).href)
  return (text) => encode(text).length
}

/** Another agent that runs a task without a person, against a provider on loopback. */
export interface PeerAgent {
  readonly name: string
  command(options: PeerOptions): Promise<PeerCommand>
}

export interface PeerOptions {
  /** Where the packages are. */
  readonly packages: string
  /** An empty directory for its settings. */
  readonly home: string
  /** The base address of the provider, with `/v1`. */
  readonly url: string
  readonly task: string
}

export interface PeerCommand {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The program of a platform: the package's own command wants its install script to have run. */
const platformBin = ({ packages: directory }: PeerOptions, name: string, ...path: readonly string[]) =>
  join(directory, 'node_modules', `${name}-${process.platform}-${process.arch}`, ...path)

const bin = ({ packages: directory }: PeerOptions, name: string) =>
  join(directory, 'node_modules', '.bin', name)

export const peerAgents: readonly PeerAgent[] = [
  {
    name: 'pi',
    command: async (options) => {
      const { home, url: baseUrl, task } = options
      const models = [{ id: 'bench', contextWindow: 200_000, maxTokens: 8192 }]
      const provider = { baseUrl, api: 'openai-completions', apiKey: 'none', models }
      await writeFile(join(home, 'models.json'), JSON.stringify({ providers: { bench: provider } }))
      const args = [bin(options, 'pi'), '-p', '--no-session', '--provider', 'bench', '--model', 'bench', task]
      return { args, env: { PI_CODING_AGENT_DIR: home, PI_OFFLINE: '1', PI_TELEMETRY: '0' } }
    },
  },
  {
    name: 'opencode',
    command: async (options) => {
      const config = {
        ...{ model: 'bench/bench', small_model: 'bench/bench', autoupdate: false, share: 'disabled' },
        provider: {
          bench: {
            ...{ npm: '@ai-sdk/openai-compatible', name: 'bench' },
            options: { baseURL: options.url, apiKey: 'none' },
            models: { bench: { name: 'bench', limit: { context: 200_000, output: 8192 } } },
          },
        },
      }
      const env = {
        OPENCODE_CONFIG_CONTENT: JSON.stringify(config),
        ...{ OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1' },
        OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      }
      const program = platformBin(options, 'opencode', 'bin', 'opencode')
      return { args: [program, 'run', '--auto', '-m', 'bench/bench', options.task], env }
    },
  },
  {
    name: 'codex',
    command: async (options) => {
      const { home, url, task } = options
      const provider = `{name="bench",base_url="${url}",wire_api="responses",env_key="BENCH_KEY",request_max_retries=0}`
      const settings = [
        ...['model_provider="bench"', `model_providers.bench=${provider}`, 'model="gpt-5"'],
        ...['check_for_update_on_startup=false', 'analytics.enabled=false'],
      ].flatMap((setting) => ['-c', setting])
      const flags = ['--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox']
      return {
        args: [bin(options, 'codex'), 'exec', ...flags, ...settings, task],
        env: { CODEX_HOME: home, BENCH_KEY: 'none' },
      }
    },
  },
  {
    name: 'Claude Code',
    command: async (options) => {
      const program = platformBin(options, '@anthropic-ai/claude-code', 'claude')
      return {
        args: [program, '-p', '--allowedTools', 'Bash', '--', options.task],
        env: {
          ...{ ANTHROPIC_BASE_URL: options.url.replace(/\/v1$/, ''), ANTHROPIC_API_KEY: 'none' },
          ...{ CLAUDE_CONFIG_DIR: options.home, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
          ...{ DISABLE_AUTOUPDATER: '1', DISABLE_TELEMETRY: '1', DISABLE_ERROR_REPORTING: '1' },
        },
      }
    },
  },
]

/** Runs an agent to its end; its output is dropped unless it fails. */
export async function runPeer(agent: PeerAgent, options: PeerOptions, workspace: string): Promise<void> {
  await mkdir(options.home, { recursive: true })
  const { args, env } = await agent.command(options)
  const [program = '', ...rest] = args
  const child = spawn(program, rest, {
    cwd: workspace,
    env: { PATH: process.env.PATH, HOME: options.home, NO_PROXY: '127.0.0.1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 300_000,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
  const code = await new Promise<number | null>((done, fail) => child.once('error', fail).once('close', done))
  if (code !== 0) throw new Error(`${agent.name} has ended with ${code}: ${output.slice(-2000)}`)
}
