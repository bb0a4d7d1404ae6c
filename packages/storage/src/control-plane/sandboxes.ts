import type { Instant } from '@slipway/protocol'
import type { AdminScope, PageQuery, RowPage, Rows, Scope } from './rows.ts'
import type { SandboxActor } from './sandbox-events.ts'

/**
 * The desired state of a sandbox, written before any step towards it. `archived`: nothing of it is left but
 * the row, and the logs of its conversations in the control plane.
 */
type DesiredState = 'running' | 'paused' | 'archived' | 'gone'

/** A sandbox. The row is written before its backend creates anything and removed after everything else. */
export interface SandboxRow {
  readonly id: string
  /** Id of a user; null for an unclaimed sandbox of the warm pool. */
  readonly owner: string | null
  readonly org: string | null
  readonly spec: string
  readonly backend: string
  readonly wanted: DesiredState
  /** The observed status: STARTING, RUNNING, PAUSED, ERROR or MISSING. */
  readonly status: string
  /** For its owner: the reason for the status. Contains no secret. */
  readonly detail: string | null
  /** SHA-256 of its session key in hex; before it has one null, and after a claim the id of the claim. */
  readonly key_hash: string | null
  /** Session key and configuration, sealed by the caller. */
  readonly sealed: Buffer
  /** Of the backend: identifies one start of its processes; null before the first. */
  readonly epoch: string | null
  /** JSON text of the addresses of its agent server. */
  readonly addresses: string
  readonly created_at: Instant
  /** Last change of `status`. */
  readonly changed_at: Instant
  readonly used_at: Instant
  /**
   * When it was paused with all its events in the log of the control plane and nothing running; null:
   * unknown. Says nothing after a later use.
   */
  readonly caught_up_at: Instant | null
  /**
   * The announced time of its deletion; null: none was announced. Says nothing after a later use or change.
   */
  readonly deletes_at: Instant | null
}

/** Of all users, or of what is named. */
export interface SandboxFilter {
  readonly owner?: string | undefined
  readonly org?: string | undefined
  /** As callers see it: an archived sandbox is MISSING. */
  readonly status?: string | undefined
  /**
   * In the id, the spec, the detail or the name or email of the owner, ignoring the case of ASCII letters.
   */
  readonly text?: string | undefined
}

export type SandboxSort = 'CREATED_AT' | 'CREATED_AT_DESC' | 'USED_AT' | 'USED_AT_DESC' | 'COST' | 'COST_DESC'

/** What its conversations have used. */
export interface SandboxTotals {
  /** In millionths of a dollar; that of conversations which were deleted included. */
  readonly cost: number
  /** Those that are there, children included. */
  readonly conversations: number
}

type SandboxChange = Partial<Omit<SandboxRow, 'id' | 'created_at' | 'changed_at'>>

export interface SandboxRows extends Rows<SandboxRow> {
  /** Writes a new row; `known` when the id exists. */
  add(row: SandboxRow, actor?: SandboxActor): Promise<'added' | 'known'>
  findByKeyHash(hash: string): Promise<SandboxRow | undefined>
  /**
   * Changes the given members if the row still has the members of `where`, and returns the new row; undefined
   * when it is missing or does not match. A changed `status` sets `changed_at`, and is an event of the
   * sandbox.
   */
  update(
    id: string,
    members: SandboxChange,
    options?: {
      readonly where?: Partial<Pick<SandboxRow, 'wanted' | 'status' | 'owner' | 'epoch'>>
      /** For its events. */
      readonly by?: SandboxActor | undefined
    },
  ): Promise<SandboxRow | undefined>
  /** The RUNNING sandboxes of a spec in the warm pool, the oldest first, at most 100. */
  listPooled(spec: string): Promise<readonly SandboxRow[]>
  /**
   * Assigns a RUNNING sandbox of the warm pool to an owner and sets `changed_at`; undefined when another call
   * has it, or when it is no longer in the pool, or no longer sealed as `listed`: another start has another
   * key. `sealed` is made for this call: a repeated one, after an answer that was lost, returns the row
   * again.
   */
  claim(
    id: string,
    members: SandboxChange & Pick<SandboxRow, 'sealed'> & { readonly owner: string },
    listed?: Buffer,
  ): Promise<SandboxRow | undefined>
  /** Newest first, without sandboxes whose desired state is `gone`. */
  search(scope: Scope | AdminScope, query: PageQuery): Promise<RowPage<SandboxRow>>
  /** Of all owners, without those of `gone`. */
  searchAll(
    query: PageQuery & SandboxFilter & { readonly sort_order: SandboxSort },
  ): Promise<RowPage<SandboxRow>>
  /** By id. */
  totals(ids: readonly string[]): Promise<ReadonlyMap<string, SandboxTotals>>
  /** Every row, by id, in batches. */
  iterateAll(): AsyncIterable<SandboxRow>
  /** Those of all owners whose desired state is `running`, by id, in batches. */
  iterateRunning(): AsyncIterable<SandboxRow>
  /** Lets a sandbox look up the secrets of these names, besides earlier ones, until its row is removed. */
  grantSecrets(id: string, names: readonly string[]): Promise<void>
  /** The names that were granted, in order. */
  listGrantedSecrets(id: string): Promise<readonly string[]>
  /** Sandboxes of an owner whose desired state is `running`, least recently used first. */
  listRunning(owner: string | null): Promise<readonly SandboxRow[]>
}
