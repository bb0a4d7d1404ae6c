import { Problem, unlimited } from '@slipway/protocol'
import type { SandboxRow, SandboxRows, UserRows } from '@slipway/storage/control-plane'
import type { DesiredStateWriter } from './desired-state.ts'
import { fetchIdleSeconds } from './lifetimes/idle-time.ts'
import type { LastUseTracker } from './lifetimes/last-use.ts'
import type { SandboxContext } from './state/context.ts'
import type { SandboxInfoReader } from './state/sandbox-info.ts'

type ConcurrencyLimitDeps = SandboxContext & {
  readonly desired: DesiredStateWriter
  readonly infoReader: SandboxInfoReader
  readonly lastUse: LastUseTracker
}

interface SandboxLimitDeps {
  readonly users: Pick<UserRows, 'getLimits'>
  readonly rows: Pick<SandboxRows, 'listRunning'>
  /** Of the server; 0: unlimited. */
  readonly maxSandboxes: number
}

/** The limit of an owner and the number of sandboxes that count; no limit is undefined. */
export async function readSandboxQuota(deps: SandboxLimitDeps, owner: string | null) {
  const [limit, active] = await Promise.all([getSandboxLimit(deps, owner), listActive(deps.rows, owner)])
  return { limit, used: active.length }
}

/** Of the user or, unless the user has one, of the server. */
async function getSandboxLimit(
  { users, maxSandboxes }: Omit<SandboxLimitDeps, 'rows'>,
  owner: string | null,
): Promise<number | undefined> {
  const own = owner === null ? null : (await users.getLimits(owner)).max_sandboxes
  const limit = own ?? (maxSandboxes <= 0 ? unlimited : maxSandboxes)
  return limit === unlimited ? undefined : limit
}

async function listActive(
  rows: Pick<SandboxRows, 'listRunning'>,
  owner: string | null,
): Promise<readonly SandboxRow[]> {
  const running = await rows.listRunning(owner)
  return running.filter(({ status }) => status === 'RUNNING' || status === 'STARTING')
}

/** A Problem `too_many` at the limit, unless an idle sandbox can be paused. `except` is the one to run. */
export async function ensureCapacity(
  deps: ConcurrencyLimitDeps,
  owner: string | null,
  except?: string,
): Promise<void> {
  const { maxSandboxesPolicy: policy, rows, limitsResumes = true } = deps
  const isFree = except !== undefined && !limitsResumes
  const limit = await getSandboxLimit(isFree ? { ...deps, maxSandboxes: 0 } : deps, owner)
  if (limit === undefined) return
  const others = (await listActive(rows, owner)).filter(({ id }) => id !== except)
  let current = others.length
  if (policy === 'pause_idle') {
    for (const row of others) {
      if (current < limit) return
      if (await pauseIfIdle(deps, row)) current -= 1
    }
  }
  if (current < limit) return
  const hint = policy === 'refuse' ? '' : ', and none of them is idle'
  const message = `${current} sandboxes of yours run and ${limit} may${hint}: pause or delete one first, or ask an administrator (slipway quotas set --sandboxes).`
  const members = { error: 'CONCURRENCY_LIMIT_REACHED', limit, current }
  throw new Problem('too_many', message, undefined, members)
}

async function pauseIfIdle(deps: ConcurrencyLimitDeps, row: SandboxRow): Promise<boolean> {
  if (row.status !== 'RUNNING' || !(await isIdle(deps, row))) return false
  try {
    await deps.desired.pause(row.id, {}, { detail: 'it was idle, and another one was to start' })
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

async function isIdle(deps: ConcurrencyLimitDeps, row: SandboxRow): Promise<boolean> {
  const { evictIdleSeconds, clock, infoReader, lastUse } = deps
  const unusedSeconds = clock.now() / 1000 - lastUse.lastUse(row) / 1_000_000
  const connection = infoReader.getConnection(row)
  if (connection === undefined || unusedSeconds < evictIdleSeconds) return false
  const idleSeconds = await fetchIdleSeconds(connection, deps)
  return idleSeconds !== undefined && idleSeconds >= evictIdleSeconds
}
