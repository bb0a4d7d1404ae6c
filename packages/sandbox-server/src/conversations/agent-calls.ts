import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { CallError, type CallInput, ConnectionError } from '@slipway/client'
import { type Llm, Problem, type SandboxStatus } from '@slipway/protocol'
import type { KeyedMutex } from '@slipway/shared/async'
import type { AppConversationRow, ControlPlaneStore, SandboxRow } from '@slipway/storage'
import { downloadFile, execCommand, shellQuote } from '../sandboxes/sandbox-exec.ts'
import type { SandboxConnection, Sandboxes } from '../sandboxes/sandboxes.ts'
import { parseMetadata, visibleSandboxStatus } from './records/conversation-info.ts'

const sendTimeoutMs = 30_000
const callTimeoutMs = 30_000
const maxFileBytes = 10 * 1024 * 1024
const maxFiles = 2_000
/** Where a project is unless its sandbox says otherwise: clients ask for files below it. */
const defaultProjectDir = '/workspace/project'

/** Directories of builds and dependencies (wire 1.1). */
const ignoredDirectories = [
  '.git',
  'node_modules',
  '.venv',
  'venv',
  '__pycache__',
  'dist',
  'build',
  '.next',
  '.cache',
  '.pytest_cache',
  '.mypy_cache',
  '.turbo',
  '.parcel-cache',
  'target',
]

export interface AgentCallsDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'conversations'>
  readonly sandboxes: Pick<Sandboxes, 'find' | 'getConnection' | 'touch'>
  readonly conversationMutex: KeyedMutex
  readonly fetch: typeof fetch
}

type Message = NonNullable<CallInput<'sendMessage'>['body']>

/**
 * What is asked of the agent server of a conversation. While its sandbox does not run these are Problems that say what to
 * do: `conflict` (STARTING, PAUSED), `gone` (MISSING), `unavailable` (ERROR); `bad_gateway` when it does not answer or refuses.
 */
export class AgentCalls {
  readonly #deps: AgentCallsDeps

  constructor(deps: AgentCallsDeps) {
    this.#deps = deps
  }

  /** Resolves when the message is stored. With a key a repeat is stored once. */
  async sendMessage(
    row: AppConversationRow,
    body: Message,
    options: { readonly key: string | undefined; readonly signal: AbortSignal },
  ): Promise<SandboxStatus> {
    const connection = await this.#getConnection(row)
    const { key } = options
    await mapAgentErrors(() =>
      connection.client.call('sendMessage', {
        params: { conversation_id: row.id },
        body,
        ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
        signal: withTimeout(options.signal, sendTimeoutMs),
      }),
    )
    return visibleSandboxStatus(connection.row)
  }

  async switchModel(
    row: AppConversationRow,
    profile: { readonly name: string; readonly llm: Llm },
    signal: AbortSignal,
  ): Promise<void> {
    const { controlPlane, conversationMutex } = this.#deps
    const { client } = await this.#getConnection(row)
    const digest = createHash('sha1').update(JSON.stringify(profile.llm)).digest('hex').slice(0, 12)
    const llm = { ...profile.llm, usage_id: `profile:${profile.name}:${digest}` }
    const params = { conversation_id: row.id }
    await mapAgentErrors(() =>
      client.call('switchLlm', { params, body: { llm }, signal: withTimeout(signal, callTimeoutMs) }),
    )
    await conversationMutex.runExclusive(row.id, async () => {
      const [now] = await controlPlane.conversations.get([row.id])
      if (now === undefined) return
      const members = JSON.stringify({ ...parseMetadata(now), llm_model: llm.model })
      await controlPlane.conversations.update(row.id, { members })
    })
  }

  /** The text of a file; empty for every reason why it cannot be read. */
  async readFile(row: AppConversationRow, path: string, signal: AbortSignal): Promise<string> {
    try {
      const connection = await this.#getConnection(row)
      const bytes = await downloadFile(connection, resolveFilePath(row, path), {
        fetch: this.#deps.fetch,
        maxBytes: maxFileBytes,
        signal: withTimeout(signal, callTimeoutMs),
      })
      return bytes?.toString() ?? ''
    } catch {
      return ''
    }
  }

  /** Absolute paths of the files below a directory, at most 2000. Names with a line break are passed over. */
  async listFiles(row: AppConversationRow, path: string, signal: AbortSignal): Promise<readonly string[]> {
    const connection = await this.#getConnection(row)
    const directory = shellQuote(posix.resolve(parseMetadata(row).projectDir ?? connection.workingDir, path))
    const names = ignoredDirectories.map((name) => `-name ${shellQuote(name)}`).join(' -o ')
    const command = `[ -d ${directory} ] || exit 44
find ${directory} -mindepth 1 -type d \\( ${names} \\) -prune -o -type f ! -name $'*\\n*' ! -path $'*\\n*' -print 2>/dev/null | head -n ${maxFiles}`
    const ran = await mapAgentErrors(() =>
      execCommand(connection, command, { timeoutMs: callTimeoutMs, signal }),
    )
    if (ran.exitCode === 44) throw new Problem('not_found', 'There is no such directory in the sandbox')
    if (ran.exitCode !== 0) throw new Problem('bad_gateway', 'The files could not be listed')
    return ran.stdout.split('\n').filter((line) => line !== '')
  }

  async gitChanges(
    row: AppConversationRow,
    query: { readonly path: string; readonly ref?: string | undefined },
    signal: AbortSignal,
  ): Promise<unknown> {
    const { client } = await this.#getConnection(row)
    return await mapAgentErrors(() =>
      client.call('gitChanges', { query, signal: withTimeout(signal, callTimeoutMs) }),
    )
  }

  async gitDiff(
    row: AppConversationRow,
    query: { readonly path: string; readonly ref?: string | undefined },
    signal: AbortSignal,
  ): Promise<unknown> {
    const { client } = await this.#getConnection(row)
    return await mapAgentErrors(() =>
      client.call('gitDiff', { query, signal: withTimeout(signal, callTimeoutMs) }),
    )
  }

  /** None while its sandbox does not run. */
  async skills(row: AppConversationRow, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
    const connection = await this.#findConnection(row)
    if (connection === undefined) return []
    const { skills } = await mapAgentErrors(() =>
      connection.client.call('listSkills', {
        body: { project_dir: parseMetadata(row).projectDir ?? connection.workingDir },
        signal: withTimeout(signal, callTimeoutMs),
      }),
    )
    return skills.map(({ name, type, content, triggers }) => ({ name, type, content, triggers }))
  }

  /** None while its sandbox does not run. */
  async hooks(row: AppConversationRow, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
    const connection = await this.#findConnection(row)
    if (connection === undefined) return []
    const { hook_config } = await mapAgentErrors(() =>
      connection.client.call('getHooks', {
        body: { project_dir: parseMetadata(row).projectDir ?? connection.workingDir },
        signal: withTimeout(signal, callTimeoutMs),
      }),
    )
    if (typeof hook_config !== 'object' || hook_config === null) return []
    return Object.entries(hook_config)
      .map(([event_type, matchers]) => ({ event_type, matchers }))
      .filter(({ matchers }) => Array.isArray(matchers) && matchers.length > 0)
  }

  async #findConnection(row: AppConversationRow): Promise<SandboxConnection | undefined> {
    const { sandboxes } = this.#deps
    const [sandbox] = await sandboxes.find([row.sandbox])
    return sandbox === undefined ? undefined : sandboxes.getConnection(sandbox)
  }

  async #getConnection(row: AppConversationRow): Promise<SandboxConnection> {
    const { sandboxes } = this.#deps
    const [sandbox] = await sandboxes.find([row.sandbox])
    const connection = sandbox === undefined ? undefined : sandboxes.getConnection(sandbox)
    if (connection === undefined) throw notRunningProblem(row, sandbox)
    sandboxes.touch(row.sandbox)
    return connection
  }
}

/** Paths below the usual place of projects are meant to be of this one. */
function resolveFilePath(row: AppConversationRow, path: string): string {
  const { projectDir = defaultProjectDir } = parseMetadata(row)
  const requested = posix.resolve(projectDir, path)
  const isInProject = requested === projectDir || requested.startsWith(`${projectDir}/`)
  if (isInProject || !requested.startsWith(`${defaultProjectDir}/`)) return requested
  return projectDir + requested.slice(defaultProjectDir.length)
}

function notRunningProblem({ sandbox: id }: AppConversationRow, sandbox: SandboxRow | undefined): Problem {
  const status = visibleSandboxStatus(sandbox)
  const resume = `resume it with POST /api/v1/sandboxes/${id}/resume`
  if (status === 'MISSING')
    return new Problem('gone', 'Its sandbox is MISSING: start the conversation again to give it a new one.')
  if (status === 'ERROR') return new Problem('unavailable', `Its sandbox is in ERROR: ${resume}.`)
  if (status === 'PAUSED') return new Problem('conflict', `Its sandbox is PAUSED: ${resume} and try again.`)
  return new Problem('conflict', `Its sandbox is ${status}: wait until it is RUNNING and try again.`)
}

/** What an agent server refuses or leaves unanswered, as a Problem. What the caller could do better is told. */
async function mapAgentErrors<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof CallError) {
      if (error.status === 400) throw new Problem('bad_request', error.detail)
      throw new Problem('bad_gateway', `The agent server refused with ${error.status}: ${error.detail}`)
    }
    if (error instanceof ConnectionError || (error instanceof Error && error.name === 'TimeoutError'))
      throw new Problem('bad_gateway', 'The agent server did not answer')
    throw error
  }
}

function withTimeout(signal: AbortSignal, timeoutMs: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
}
