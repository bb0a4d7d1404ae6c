import type { Clock } from '@slipway/shared/time'
import {
  type AppConversationRows,
  ownedBy,
  type SandboxRow,
  type Scope,
} from '@slipway/storage/control-plane'
import { visibleSandboxStatus } from '../conversations/records/conversation-info.ts'
import type { OrganizationLimits } from '../organizations/organizations.ts'
import { ignoreProblem } from '../sandboxes/desired-state.ts'
import type { SandboxConnection, Sandboxes } from '../sandboxes/sandboxes.ts'
import { type SandboxFailure, StartError, sandboxError } from './failures.ts'
import { chooseByStrategy, isGroupingStrategy } from './grouping.ts'

export type StartSandboxes = Pick<
  Sandboxes,
  | 'start'
  | 'get'
  | 'find'
  | 'search'
  | 'resume'
  | 'remove'
  | 'copyFiles'
  | 'waitSettled'
  | 'getConnection'
  | 'touch'
> & { getInfo(row: SandboxRow): Promise<SandboxFailure> }

const pollMs = 20

export interface SandboxChoice {
  readonly row: SandboxRow
  /** Created for this conversation. */
  readonly isNew: boolean
  /** Other conversations may join it. */
  readonly isGrouped: boolean
}

interface SelectionContext {
  readonly scope: Scope
  readonly conversations: AppConversationRows
  readonly sandboxes: StartSandboxes
  startingIn(sandbox: string): Promise<readonly string[]>
  /** Throws a Problem when a sandbox of the spec does not do. */
  checkSpec(spec: string | undefined): void
  readonly limits: Pick<OrganizationLimits, 'allowsSpec' | 'chooseSpec'>
}

/** The requested sandbox, else a preferred one, else one by the grouping strategy, else a new one. */
export async function selectSandbox(
  context: SelectionContext,
  request: {
    readonly sandbox: string | undefined
    /** Candidates in order; the first that is not MISSING. */
    readonly preferred: readonly string[]
    readonly spec: string | undefined
    readonly strategy: string
  },
): Promise<SandboxChoice> {
  const { scope, sandboxes } = context
  const { sandbox, preferred, spec, strategy } = request
  const isGrouped = isGroupingStrategy(strategy)
  if (sandbox !== undefined) return joinSandbox(context, await sandboxes.get(scope, sandbox), isGrouped)
  const found = await sandboxes.find(preferred)
  const usable = found.find((row) => ownedBy(scope).includes(row) && visibleSandboxStatus(row) !== 'MISSING')
  if (usable !== undefined) return joinSandbox(context, usable, isGrouped)
  const joined = isGrouped ? chooseByStrategy(strategy, await listCandidates(context, spec)) : undefined
  if (joined !== undefined) return joinSandbox(context, joined.row, isGrouped)
  const chosen = context.limits.chooseSpec(spec)
  context.checkSpec(chosen)
  const options = chosen === undefined ? {} : { spec: chosen, specPath: ['body', 'sandbox_spec_id'] }
  return { row: await sandboxes.start(scope, options), isNew: true, isGrouped }
}

function joinSandbox(context: SelectionContext, row: SandboxRow, isGrouped: boolean): SandboxChoice {
  context.checkSpec(row.spec)
  return { row, isNew: false, isGrouped }
}

async function listCandidates(
  { scope, sandboxes, conversations, startingIn, limits }: SelectionContext,
  spec: string | undefined,
) {
  const candidates: { readonly row: SandboxRow; readonly conversations: number }[] = []
  for (let page_id: string | undefined; ; ) {
    const page = await sandboxes.search(scope, { limit: 100, page_id })
    for (const row of page.items) {
      if (row.status !== 'RUNNING' || row.wanted !== 'running') continue
      if (spec === undefined ? !limits.allowsSpec(row.spec) : row.spec !== spec) continue
      const current = (await conversations.listBySandbox(row.id)).map(({ id }) => id)
      const starting = await startingIn(row.id)
      candidates.push({ row, conversations: new Set([...current, ...starting]).size })
    }
    if (page.next_page_id === null) return candidates
    page_id = page.next_page_id
  }
}

/** Resumes a paused sandbox once. Rejects with a `StartError` when the sandbox fails, or after `waitMs`. */
export async function waitUntilRunning(
  sandboxes: StartSandboxes,
  choice: SandboxRow,
  options: { readonly waitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<SandboxConnection> {
  const timeout = options.clock.timeout(options.waitMs)
  const signal = AbortSignal.any([options.signal, timeout])
  let wasResumed = false
  try {
    for (let row = choice; ; row = await sandboxes.waitSettled(row.id, signal)) {
      signal.throwIfAborted()
      const status = visibleSandboxStatus(row)
      if (status === 'ERROR' || status === 'MISSING') throw sandboxError(await sandboxes.getInfo(row))
      const connection = status === 'RUNNING' ? sandboxes.getConnection(row) : undefined
      if (connection !== undefined) return connection
      if (row.wanted !== 'paused') {
        // RUNNING is settled: without a pause this would be a busy loop until the agent server answers.
        await options.clock.sleep(pollMs, { signal })
        continue
      }
      if (wasResumed) throw new StartError(`The sandbox ${row.id} was paused during the start.`)
      wasResumed = true
      // A failure of its backend may pass within `waitMs`.
      await sandboxes.resume(row).catch(ignoreProblem('bad_gateway'))
    }
  } catch (error) {
    if (!timeout.aborted || options.signal.aborted) throw error
    throw new StartError(
      `The sandbox ${choice.id} was not ready within ${options.waitMs / 1000} s. It is still starting: start again with the same conversation_id to use it.`,
    )
  }
}
