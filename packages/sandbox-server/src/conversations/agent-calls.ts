import { hash } from 'node:crypto'
import { posix } from 'node:path'
import type { CallInput } from '@slipway/client'
import { type Llm, Problem, type SandboxStatus } from '@slipway/protocol'
import { shellQuote } from '@slipway/shared/text'
import type { AppConversationRow, SandboxRow } from '@slipway/storage/control-plane'
import { callAgent } from '../network/call-agent.ts'
import { downloadFile, execCommand } from '../sandboxes/sandbox-exec.ts'
import type { SandboxConnection, Sandboxes } from '../sandboxes/sandboxes.ts'
import { applyReport } from './records/apply-report.ts'
import type { ConversationContext } from './records/conversation-context.ts'
import { parseMetadata, visibleSandboxStatus } from './records/conversation-info.ts'

const callTimeoutMs = 30_000
const maxFileBytes = 10 * 1024 * 1024
const maxFiles = 2_000
/** The project directory in requests of clients, wherever the project really is. */
const defaultProjectDir = '/workspace/project'

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

interface AgentCallsDeps
  extends Pick<ConversationContext, 'controlPlane' | 'conversationMutex' | 'fetch' | 'clock'> {
  readonly sandboxes: Pick<Sandboxes, 'find' | 'getConnection' | 'touch'>
}

type Message = NonNullable<CallInput<'sendMessage'>['body']>

/** Problems: `conflict` (STARTING, PAUSED), `gone` (MISSING), `unavailable` (ERROR), `bad_gateway`. */
export class AgentCalls {
  readonly #deps: AgentCallsDeps

  constructor(deps: AgentCallsDeps) {
    this.#deps = deps
  }

  /** Resolves when the message is stored. A message repeated with its key is stored once. */
  async sendMessage(
    row: AppConversationRow,
    body: Message,
    options: { readonly key: string | undefined; readonly signal: AbortSignal },
  ): Promise<SandboxStatus> {
    const { key } = options
    return await this.call(row, options.signal, async ({ client, row: sandbox }, signal) => {
      await client.call('sendMessage', {
        params: { conversation_id: row.id },
        body,
        ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
        signal,
      })
      return visibleSandboxStatus(sandbox)
    })
  }

  async switchModel(
    row: AppConversationRow,
    profile: { readonly name: string; readonly llm: Llm },
    outerSignal: AbortSignal,
  ): Promise<void> {
    const digest = hash('sha1', JSON.stringify(profile.llm)).slice(0, 12)
    const llm = { ...profile.llm, usage_id: `profile:${profile.name}:${digest}` }
    await this.#switch(row, outerSignal, ({ client }, params, signal) =>
      client.call('switchLlm', { params, body: { llm }, signal }),
    )
  }

  /** Of an external agent; a Problem `bad_request` for another one, `timeout` when it does not answer. */
  async switchAcpModel(row: AppConversationRow, model: string, outerSignal: AbortSignal): Promise<void> {
    await this.#switch(row, outerSignal, ({ client }, params, signal) =>
      client.call('switchAcpModel', { params, body: { model }, signal }),
    )
  }

  /** Switches in the agent server, and stores what it says of the conversation then. */
  async #switch(
    row: AppConversationRow,
    outerSignal: AbortSignal,
    work: (
      connection: SandboxConnection,
      params: { readonly conversation_id: string },
      signal: AbortSignal,
    ) => Promise<unknown>,
  ): Promise<void> {
    const { controlPlane, conversationMutex, clock } = this.#deps
    const params = { conversation_id: row.id }
    const info = await this.call(row, outerSignal, async (connection, signal) => {
      await work(connection, params, signal)
      return await connection.client.call('getConversation', { params, signal })
    })
    await conversationMutex.runExclusive(row.id, async () => {
      const [now] = await controlPlane.conversations.get([row.id])
      if (now !== undefined)
        await controlPlane.conversations.update(row.id, applyReport(now, { ...info }, clock.now() * 1000))
    })
  }

  /** The text of a file; empty when it cannot be read for any reason. */
  async readFile(row: AppConversationRow, path: string, outerSignal: AbortSignal): Promise<string> {
    try {
      const bytes = await this.call(row, outerSignal, (connection, signal) =>
        downloadFile(connection, resolveProjectPath(row, connection, path), {
          fetch: this.#deps.fetch,
          maxBytes: maxFileBytes,
          signal,
        }),
      )
      return bytes?.toString() ?? ''
    } catch {
      return ''
    }
  }

  /**
   * The files below a directory by their paths in it, at most 2000, without names that contain a line break.
   */
  async listFiles(row: AppConversationRow, path: string, signal: AbortSignal): Promise<readonly string[]> {
    const result = await this.call(row, signal, (connection) => {
      const directory = shellQuote(resolveProjectPath(row, connection, path))
      const names = ignoredDirectories.map((name) => `-name ${shellQuote(name)}`).join(' -o ')
      const command = `cd -- ${directory} 2>/dev/null || exit 44
find . -mindepth 1 -type d \\( ${names} \\) -prune -o -type f ! -name $'*\\n*' ! -path $'*\\n*' -print 2>/dev/null | head -n ${maxFiles}`
      return execCommand(connection, command, { timeoutMs: callTimeoutMs, clock: this.#deps.clock, signal })
    })
    if (result.exitCode === 44) throw new Problem('not_found', 'There is no such directory in the sandbox')
    if (result.exitCode !== 0) throw new Problem('bad_gateway', 'The files could not be listed')
    return result.stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.slice('./'.length))
  }

  /** Empty while its sandbox does not run. */
  async skills(row: AppConversationRow, outerSignal: AbortSignal) {
    const { connection } = await this.#connect(row)
    if (connection === undefined) return []
    return await callAgent(this.#callSignal(outerSignal), async (signal) => {
      const body = { project_dir: findProjectDir(row, connection) }
      const { skills } = await connection.client.call('listSkills', { body, signal })
      return skills.map(({ name, type, content, triggers }) => ({ name, type, content, triggers }))
    })
  }

  /** Empty while its sandbox does not run. */
  async hooks(row: AppConversationRow, outerSignal: AbortSignal) {
    const { connection } = await this.#connect(row)
    if (connection === undefined) return []
    return await callAgent(this.#callSignal(outerSignal), async (signal) => {
      const body = { project_dir: findProjectDir(row, connection) }
      const { hook_config } = await connection.client.call('getHooks', { body, signal })
      return Object.entries(hook_config ?? {})
        .map(([event_type, matchers]) => ({ event_type, matchers }))
        .filter(({ matchers }) => Array.isArray(matchers) && matchers.length > 0)
    })
  }

  async #connect({ sandbox: id }: AppConversationRow) {
    const { sandboxes } = this.#deps
    const [sandbox] = await sandboxes.find([id])
    return { sandbox, connection: sandbox && sandboxes.getConnection(sandbox) }
  }

  async call<T>(
    row: AppConversationRow,
    outerSignal: AbortSignal,
    work: (connection: SandboxConnection, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { sandbox, connection } = await this.#connect(row)
    if (connection === undefined) throw notRunningProblem(row, sandbox)
    this.#deps.sandboxes.touch(row.sandbox)
    return await callAgent(this.#callSignal(outerSignal), (signal) => work(connection, signal))
  }

  #callSignal(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#deps.clock.timeout(callTimeoutMs)])
  }
}

function findProjectDir(row: AppConversationRow, { workingDir }: SandboxConnection): string {
  return parseMetadata(row).projectDir ?? workingDir
}

/** A path of a request: the default project directory in it means the project of this conversation. */
export function resolveProjectPath(
  row: AppConversationRow,
  connection: SandboxConnection,
  path: string,
): string {
  const projectDir = findProjectDir(row, connection)
  const requested = posix.resolve(projectDir, path)
  if (isWithin(projectDir, requested) || !isWithin(defaultProjectDir, requested)) return requested
  return projectDir + requested.slice(defaultProjectDir.length)
}

function isWithin(directory: string, path: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}

export function notRunningProblem(
  { sandbox: id }: AppConversationRow,
  sandbox: SandboxRow | undefined,
): Problem {
  const status = visibleSandboxStatus(sandbox)
  const resume = `resume it with: slipway sandbox resume ${id}`
  if (status === 'MISSING')
    return new Problem('gone', 'Its sandbox is MISSING: start the conversation again to give it a new one.')
  if (status === 'ERROR') return new Problem('unavailable', `Its sandbox is in ERROR: ${resume}`)
  if (status === 'PAUSED') return new Problem('conflict', `Its sandbox is PAUSED: ${resume}`)
  return new Problem('conflict', `Its sandbox is ${status}: wait until it is RUNNING and try again.`)
}
