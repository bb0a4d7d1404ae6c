/**
 * What one request changes, for its line of the audit.
 *
 * The line must be there whenever the change is, and must name what changed without a call in each handler.
 * So the trail of a request is its asynchronous context: the store of the control plane finds it where the
 * request changes rows, reads the rows before and after each statement, and writes the line in the same
 * transaction (`audited-session.ts`). The status is added when the request has been answered; a line without
 * one is that of a request whose server ended in between. A request that changed no row gets its line then.
 *
 * A trail ends with its answer: work that begins in the background after it belongs to no request. The last
 * line waits for changes that have begun, and a line has a limited number of them, as each transaction
 * writes it again.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomUUID } from 'node:crypto'
import type { Instant } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { AllowedBy, AuditRow, Members } from './audit-rows.ts'

/** One row or document that a statement changed; undefined: it does not exist. */
export interface NotedChange {
  readonly type: string
  /** What it is about: rows of several tables may be about one user. */
  readonly id: string
  /** Tells it from all others. */
  readonly key: string
  readonly before: Members | undefined
  readonly after: Members | undefined
}

type AuditCaller = Pick<AuditRow, 'caller' | 'via' | 'org'>

const trails = new AsyncLocalStorage<AuditTrail>()
/** Longest JSON text of the members before or after. */
const maxMembersLength = 16_384
const maxOthers = 50
/**
 * Changes of a request that are kept, in addition to those of its target: each transaction writes a line of
 * all of them.
 */
const maxChanges = 500

/** The trail of the request that is being answered. */
export function currentAuditTrail(): AuditTrail | undefined {
  const trail = trails.getStore()
  return trail?.isEnded === true ? undefined : trail
}

/** For work that a request causes and that is not its own, such as steps of a reconciliation. */
export function leaveAuditTrail<T>(work: () => T): T {
  return trails.exit(work)
}

export class AuditTrail {
  isEnded = false
  target: string | undefined
  allowedBy: AllowedBy | null = null
  readonly #about: Pick<AuditRow, 'action' | 'method' | 'route' | 'target_type' | 'request_id' | 'created_at'>
  readonly #id = randomUUID()
  readonly #changes: NotedChange[] = []
  readonly #writes = new Set<Promise<unknown>>()
  #pseudonym: string | undefined
  #caller: AuditCaller = { caller: null, via: null, org: null }
  #ids: Pick<AuditRow, 'conversation' | 'sandbox'> = { conversation: null, sandbox: null }

  constructor(
    about: Pick<AuditRow, 'action' | 'method' | 'route' | 'target_type' | 'request_id'>,
    now: Instant,
  ) {
    this.#about = { ...about, created_at: now }
  }

  run<T>(work: () => T): T {
    return trails.run(this, work)
  }

  setCaller(caller: AuditCaller): void {
    this.#caller = caller
  }

  setIds(ids: Pick<AuditRow, 'conversation' | 'sandbox'>): void {
    this.#ids = ids
  }

  /** The line names a user by a pseudonym from now on, and no members. */
  forget(pseudonym: string): void {
    this.#pseudonym = pseudonym
  }

  /** A change of the request that has begun. */
  track(write: Promise<unknown>): void {
    const ended: Promise<unknown> = write.then(
      () => this.#writes.delete(ended),
      () => this.#writes.delete(ended),
    )
    this.#writes.add(ended)
  }

  /**
   * Resolves when the changes that have begun are durable or have failed: their lines are older than the
   * last.
   */
  async settle(): Promise<void> {
    await Promise.all(this.#writes)
  }

  /** Keeps changes that are durable. */
  keep(changes: readonly NotedChange[]): void {
    for (const change of changes)
      if (this.#changes.length < maxChanges || change.id === this.target) this.#changes.push(change)
  }

  /** The line, with further changes of a transaction that is not durable yet. */
  toRow(further: readonly NotedChange[] = [], status: number | null = null): AuditRow {
    const changes = [...this.#changes, ...further]
    const { target_type } = this.#about
    const ids = new Set(changes.filter(({ type }) => type === target_type).map(({ id }) => id))
    const target =
      this.#pseudonym ??
      this.target ??
      changes.find((change) => change.type === target_type && isBegun(change))?.id ??
      (ids.size === 1 ? [...ids][0] : undefined)
    const several = target === undefined ? target_type : undefined
    return {
      id: this.#id,
      ...this.#about,
      ...this.#caller,
      ...this.#ids,
      target: target === undefined ? null : firstChars(target, 200),
      allowed_by: this.allowedBy,
      status,
      before: this.#pseudonym === undefined ? toMembers(changes, 'before', target, several) : null,
      after: this.#pseudonym === undefined ? toMembers(changes, 'after', target, several) : null,
    }
  }
}

/** A new row of an owner, or one of the warm pool that has got its owner. */
function isBegun({ before, after }: NotedChange): boolean {
  return before === undefined ? after?.owner !== null : before.owner === null
}

/**
 * Members of the target itself, or by its id of each row of the type `several`; of other rows that came or
 * went the ids, by type.
 */
function toMembers(
  changes: readonly NotedChange[],
  side: 'before' | 'after',
  target: string | undefined,
  several: string | undefined,
): Members | null {
  const members: Record<string, unknown> = {}
  const others: Record<string, string[]> = {}
  const created = new Set(changes.filter(({ before }) => before === undefined).map(({ key }) => key))
  // The first value before and the last one after; a row that the request created has no value before.
  for (const change of side === 'before' ? changes.toReversed() : changes) {
    const { type, id, key } = change
    if (side === 'before' && created.has(key)) continue
    if (id === target || type === 'document') Object.assign(members, change[side])
    else if (type === several && change.before !== undefined && change.after !== undefined)
      members[id] = Object.assign(members[id] ?? {}, change[side])
    else if (change[side] !== undefined && change[side === 'before' ? 'after' : 'before'] === undefined) {
      others[pluralOf(type)] ??= []
      const ids = others[pluralOf(type)] ?? []
      if (ids.length < maxOthers && !ids.includes(id)) ids.push(id)
    }
  }
  const all = { ...others, ...members }
  if (Object.keys(all).length === 0) return null
  return JSON.stringify(all).length > maxMembersLength
    ? { is_cut: true, changed_members: Object.keys(all).slice(0, maxOthers) }
    : all
}

function pluralOf(type: string): string {
  return type === 'sandbox' ? 'sandboxes' : `${type}s`
}
