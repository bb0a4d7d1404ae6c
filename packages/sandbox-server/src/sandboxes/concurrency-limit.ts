import { Problem } from '@slipway/protocol'
import type { SandboxRow } from '@slipway/storage/control-plane'
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

/** A Problem `too_many` at the limit, unless an idle sandbox can be paused. `except` is the one to run. */
export async function ensureCapacity(
  deps: ConcurrencyLimitDeps,
  owner: string | null,
  except?: string,
): Promise<void> {
  const { maxSandboxes: limit, maxSandboxesPolicy: policy, rows } = deps
  if (limit <= 0) return
  const others = (await rows.listRunning(owner)).filter(
    ({ id, status }) => id !== except && (status === 'RUNNING' || status === 'STARTING'),
  )
  let current = others.length
  if (policy === 'pause_idle') {
    for (const row of others) {
      if (current < limit) return
      if (await pauseIfIdle(deps, row)) current -= 1
    }
  }
  if (current < limit) return
  const hint = policy === 'refuse' ? '' : ', and none of them is idle'
  const message = `${current} sandboxes of yours run and ${limit} may${hint}: pause or delete one first.`
  const members = { error: 'CONCURRENCY_LIMIT_REACHED', limit, current }
  throw new Problem('too_many', message, undefined, members)
}

async function pauseIfIdle(deps: ConcurrencyLimitDeps, row: SandboxRow): Promise<boolean> {
  if (row.status !== 'RUNNING' || !(await isIdle(deps, row))) return false
  try {
    await deps.desired.pause(row.id)
    return true
  } catch (error) {
    if (error instanceof Problem) return false
    throw error
  }
}

async function isIdle(deps: ConcurrencyLimitDeps, row: SandboxRow): Promise<boolean> {
  const { evictIdleSeconds, now, infoReader, lastUse } = deps
  const unusedSeconds = now() / 1000 - lastUse.lastUse(row) / 1_000_000
  const connection = infoReader.getConnection(row)
  if (connection === undefined || unusedSeconds < evictIdleSeconds) return false
  const idleSeconds = await fetchIdleSeconds(connection, deps)
  return idleSeconds !== undefined && idleSeconds >= evictIdleSeconds
}
