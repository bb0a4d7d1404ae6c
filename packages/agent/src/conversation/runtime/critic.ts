import type { Critic, CriticResult } from '@slipway/protocol'
import { readJson } from '@slipway/shared/async'
import { RepositoryView } from '@slipway/shared/git'
import { isRecord } from '@slipway/shared/json'
import { type GitCommand, gitCommand } from '@slipway/shared/process'
import { firstChars } from '@slipway/shared/text'
import type { Clock } from '@slipway/shared/time'
import type { Workspace } from '../../workspace/workspace.ts'

const maxRequestBytes = 4 * 1024 * 1024
const maxResponseBytes = 1024 * 1024
const maxMessage = 10_000
const gitTimeoutMs = 30_000
const maxGitBytes = 64 * 1024

/** The members of an event that a critic uses. */
interface CriticEvent {
  readonly kind: string
  readonly timestamp?: string | undefined
  readonly [member: string]: unknown
}

/** What to judge: the events of the task in order, the action or message in question last, and its text. */
interface CriticInput {
  readonly events: readonly CriticEvent[]
  readonly message: string
  readonly workspace: Workspace
}

/** Undefined when there is no result; never rejects. */
export type EvaluateWithCritic = (
  input: CriticInput,
  signal: AbortSignal,
) => Promise<CriticResult | undefined>

export function createCritic(critic: Critic, clock: Clock): EvaluateWithCritic {
  switch (critic.kind) {
    case 'PassCritic':
      return async () => criticScore(1)
    case 'AgentFinishedCritic':
      return async ({ events }) => criticScore(endsWithFinish(events) ? 1 : 0)
    case 'EmptyPatchCritic':
      return async (input, signal) => {
        // Undefined too where the repository cannot be examined.
        const isChanged = await hasRepositoryChanges(input, signal).catch(() => undefined)
        if (isChanged === undefined) return undefined
        return isChanged ? criticScore(1) : criticScore(0, 'Nothing was changed in the working directory.')
      }
    case 'APIBasedCritic':
      return (input, signal) => requestCritic({ critic, clock }, input, signal)
  }
}

function criticScore(value: 0 | 1, message: string | null = null): CriticResult {
  return { score: value, message }
}

function endsWithFinish(events: readonly CriticEvent[]): boolean {
  const action = events.findLast(({ kind }) => kind === 'ActionEvent')?.action
  return isRecord(action) && action.kind === 'FinishAction'
}

/** Whether the repository has changes or a commit since the first event; undefined without a repository. */
async function hasRepositoryChanges(
  { workspace, events }: CriticInput,
  signal: AbortSignal,
): Promise<boolean | undefined> {
  const run = ({ command, args, env }: GitCommand, limits: { readonly maxBytes?: number } = {}) =>
    workspace.run(command, args, { timeoutMs: gitTimeoutMs, env, ...limits }, signal)
  await using view = await RepositoryView.open((command) => run(command))
  if (view === undefined) return undefined
  const git = async (args: readonly string[]): Promise<string | undefined> => {
    const exit = await run(gitCommand(args, { env: view.env }), { maxBytes: maxGitBytes })
    return exit.exitCode === 0 ? exit.stdout.toString('utf8').trim() : undefined
  }
  const changes = await git(['status', '--porcelain', '--untracked-files=normal', '--', '.'])
  if (changes === undefined) return undefined
  const since = events.find(({ timestamp }) => timestamp !== undefined)?.timestamp
  if (changes !== '' || since === undefined) return changes !== ''
  // Git's times are whole seconds; a time without a zone is local to it.
  const seconds = Math.floor(Date.parse(/(?:Z|[+-]\d\d:?\d\d)$/.test(since) ? since : `${since}Z`) / 1000)
  const head = await git(['log', '-1', '--format=%ct'])
  return head !== undefined && Number(head) > seconds
}

/**
 * POST to `server_url` with `{model, message, events}` as JSON (the newest events that fit into 4 MiB). The
 * response is `{score, message?, metadata?}` with a score from 0 to 1.
 */
async function requestCritic(
  { critic, clock }: { readonly critic: Extract<Critic, { kind: 'APIBasedCritic' }>; readonly clock: Clock },
  input: CriticInput,
  signal: AbortSignal,
): Promise<CriticResult | undefined> {
  const timeout = clock.timeout(critic.timeout * 1000)
  try {
    const response = await fetch(critic.server_url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json',
        ...(critic.api_key === undefined ? {} : { authorization: `Bearer ${critic.api_key}` }),
      },
      body: JSON.stringify({
        model: critic.model_name ?? null,
        message: input.message,
        events: newestEvents(input.events),
      }),
      redirect: 'error',
      signal: AbortSignal.any([signal, timeout]),
    })
    if (!response.ok) {
      await response.body?.cancel()
      return undefined
    }
    return parseCriticResult(await readJson(response, maxResponseBytes))
  } catch {
    // Unreachable, too slow, too long, or not JSON.
    return undefined
  }
}

function newestEvents(events: readonly CriticEvent[]): readonly CriticEvent[] {
  let size = 0
  const tooLarge = events.findLastIndex((event) => {
    size += Buffer.byteLength(JSON.stringify(event))
    return size > maxRequestBytes
  })
  return events.slice(tooLarge + 1)
}

function parseCriticResult(value: unknown): CriticResult | undefined {
  if (!isRecord(value)) return undefined
  const { score, message, metadata } = value
  if (typeof score !== 'number' || !(score >= 0 && score <= 1)) return undefined
  return {
    score,
    message: typeof message === 'string' ? firstChars(message, maxMessage) : null,
    ...(isRecord(metadata) ? { metadata: { ...metadata } } : {}),
  }
}
