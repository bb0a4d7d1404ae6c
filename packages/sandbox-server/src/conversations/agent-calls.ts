import { createHash } from 'node:crypto'
import { posix } from 'node:path'
import { CallError, type CallInput, NoAnswerError } from '@slipway/client'
import { type Llm, Problem, type SandboxStatus } from '@slipway/protocol'
import type { AppConversationRow, Ledger, SandboxRow } from '@slipway/storage'
import type { Lanes } from '../async/keyed-mutex.ts'
import { download, quote, run } from '../sandboxes/sandbox-exec.ts'
import type { Reached, Sandboxes } from '../sandboxes/sandboxes.ts'
import { membersOf, statusOf } from './records/conversation-info.ts'

const sendMs = 30_000
const callMs = 30_000
const maxFileBytes = 10 * 1024 * 1024
const maxFiles = 2_000
/** Where a project is unless its sandbox says otherwise: clients ask for files below it. */
const usualProjectDir = '/workspace/project'

/** Directories of builds and dependencies (wire 1.1). */
const passedOver = [
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

export interface CallParts {
  readonly ledger: Pick<Ledger, 'conversations'>
  readonly sandboxes: Pick<Sandboxes, 'find' | 'reached' | 'touch'>
  readonly lanes: Lanes
  readonly reach: typeof fetch
}

type Message = NonNullable<CallInput<'sendMessage'>['body']>

/**
 * What is asked of the agent server of a conversation. While its sandbox does not run these are Problems that say what to
 * do: `conflict` (STARTING, PAUSED), `gone` (MISSING), `unavailable` (ERROR); `bad_gateway` when it does not answer or refuses.
 */
export class ConversationCalls {
  readonly #parts: CallParts

  constructor(parts: CallParts) {
    this.#parts = parts
  }

  /** Resolves when the message is stored. With a key a repeat is stored once. */
  async send(
    row: AppConversationRow,
    body: Message,
    options: { readonly key: string | undefined; readonly signal: AbortSignal },
  ): Promise<SandboxStatus> {
    const reached = await this.#reached(row)
    const { key } = options
    await asked(() =>
      reached.client.call('sendMessage', {
        params: { conversation_id: row.id },
        body,
        ...(key === undefined ? {} : { headers: { 'idempotency-key': key } }),
        signal: within(options.signal, sendMs),
      }),
    )
    return statusOf(reached.row)
  }

  async switchModel(
    row: AppConversationRow,
    profile: { readonly name: string; readonly llm: Llm },
    signal: AbortSignal,
  ): Promise<void> {
    const { ledger, lanes } = this.#parts
    const { client } = await this.#reached(row)
    const digest = createHash('sha1').update(JSON.stringify(profile.llm)).digest('hex').slice(0, 12)
    const llm = { ...profile.llm, usage_id: `profile:${profile.name}:${digest}` }
    const params = { conversation_id: row.id }
    await asked(() => client.call('switchLlm', { params, body: { llm }, signal: within(signal, callMs) }))
    await lanes.run(row.id, async () => {
      const [now] = await ledger.conversations.get([row.id])
      if (now === undefined) return
      const members = JSON.stringify({ ...membersOf(now), llm_model: llm.model })
      await ledger.conversations.change(row.id, { members })
    })
  }

  /** The text of a file; empty for every reason why it cannot be read. */
  async readFile(row: AppConversationRow, path: string, signal: AbortSignal): Promise<string> {
    try {
      const reached = await this.#reached(row)
      const bytes = await download(reached, filePath(row, path), {
        reach: this.#parts.reach,
        maxBytes: maxFileBytes,
        signal: within(signal, callMs),
      })
      return bytes?.toString() ?? ''
    } catch {
      return ''
    }
  }

  /** Absolute paths of the files below a directory, at most 2000. Names with a line break are passed over. */
  async listFiles(row: AppConversationRow, path: string, signal: AbortSignal): Promise<readonly string[]> {
    const reached = await this.#reached(row)
    const directory = quote(posix.resolve(membersOf(row).projectDir ?? reached.workingDir, path))
    const names = passedOver.map((name) => `-name ${quote(name)}`).join(' -o ')
    const command = `[ -d ${directory} ] || exit 44
find ${directory} -mindepth 1 -type d \\( ${names} \\) -prune -o -type f ! -name $'*\\n*' ! -path $'*\\n*' -print 2>/dev/null | head -n ${maxFiles}`
    const ran = await asked(() => run(reached, command, { timeoutMs: callMs, signal }))
    if (ran.exitCode === 44) throw new Problem('not_found', 'There is no such directory in the sandbox')
    if (ran.exitCode !== 0) throw new Problem('bad_gateway', 'The files could not be listed')
    return ran.stdout.split('\n').filter((line) => line !== '')
  }

  async gitChanges(
    row: AppConversationRow,
    query: { readonly path: string; readonly ref?: string | undefined },
    signal: AbortSignal,
  ): Promise<unknown> {
    const { client } = await this.#reached(row)
    return await asked(() => client.call('gitChanges', { query, signal: within(signal, callMs) }))
  }

  async gitDiff(
    row: AppConversationRow,
    query: { readonly path: string; readonly ref?: string | undefined },
    signal: AbortSignal,
  ): Promise<unknown> {
    const { client } = await this.#reached(row)
    return await asked(() => client.call('gitDiff', { query, signal: within(signal, callMs) }))
  }

  /** None while its sandbox does not run. */
  async skills(row: AppConversationRow, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
    const reached = await this.#reachedOrNot(row)
    if (reached === undefined) return []
    const { skills } = await asked(() =>
      reached.client.call('listSkills', {
        body: { project_dir: membersOf(row).projectDir ?? reached.workingDir },
        signal: within(signal, callMs),
      }),
    )
    return skills.map(({ name, type, content, triggers }) => ({ name, type, content, triggers }))
  }

  /** None while its sandbox does not run. */
  async hooks(row: AppConversationRow, signal: AbortSignal): Promise<readonly Record<string, unknown>[]> {
    const reached = await this.#reachedOrNot(row)
    if (reached === undefined) return []
    const { hook_config } = await asked(() =>
      reached.client.call('getHooks', {
        body: { project_dir: membersOf(row).projectDir ?? reached.workingDir },
        signal: within(signal, callMs),
      }),
    )
    if (typeof hook_config !== 'object' || hook_config === null) return []
    return Object.entries(hook_config)
      .map(([event_type, matchers]) => ({ event_type, matchers }))
      .filter(({ matchers }) => Array.isArray(matchers) && matchers.length > 0)
  }

  async #reachedOrNot(row: AppConversationRow): Promise<Reached | undefined> {
    const { sandboxes } = this.#parts
    const [sandbox] = await sandboxes.find([row.sandbox])
    return sandbox === undefined ? undefined : sandboxes.reached(sandbox)
  }

  async #reached(row: AppConversationRow): Promise<Reached> {
    const { sandboxes } = this.#parts
    const [sandbox] = await sandboxes.find([row.sandbox])
    const reached = sandbox === undefined ? undefined : sandboxes.reached(sandbox)
    if (reached === undefined) throw notRunning(row, sandbox)
    sandboxes.touch(row.sandbox)
    return reached
  }
}

/** Paths below the usual place of projects are meant to be of this one. */
function filePath(row: AppConversationRow, path: string): string {
  const { projectDir = usualProjectDir } = membersOf(row)
  const asked = posix.resolve(projectDir, path)
  const isInProject = asked === projectDir || asked.startsWith(`${projectDir}/`)
  if (isInProject || !asked.startsWith(`${usualProjectDir}/`)) return asked
  return projectDir + asked.slice(usualProjectDir.length)
}

function notRunning({ sandbox: id }: AppConversationRow, sandbox: SandboxRow | undefined): Problem {
  const status = statusOf(sandbox)
  const resume = `resume it with POST /api/v1/sandboxes/${id}/resume`
  if (status === 'MISSING')
    return new Problem('gone', 'Its sandbox is MISSING: start the conversation again to give it a new one.')
  if (status === 'ERROR') return new Problem('unavailable', `Its sandbox is in ERROR: ${resume}.`)
  if (status === 'PAUSED') return new Problem('conflict', `Its sandbox is PAUSED: ${resume} and try again.`)
  return new Problem('conflict', `Its sandbox is ${status}: wait until it is RUNNING and try again.`)
}

/** What an agent server refuses or leaves unanswered, as a Problem. What the caller could do better is told. */
async function asked<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof CallError) {
      if (error.status === 400) throw new Problem('bad_request', error.detail)
      throw new Problem('bad_gateway', `The agent server refused with ${error.status}: ${error.detail}`)
    }
    if (error instanceof NoAnswerError || (error instanceof Error && error.name === 'TimeoutError'))
      throw new Problem('bad_gateway', 'The agent server did not answer')
    throw error
  }
}

function within(signal: AbortSignal, timeoutMs: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
}
