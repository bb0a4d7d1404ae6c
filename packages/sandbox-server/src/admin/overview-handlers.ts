import { type Handlers, statusByCode } from '@slipway/http'
import {
  executionStatus,
  formatInstant,
  type Instant,
  type LogFunction,
  type OwnedConversation,
  type OwnedSandbox,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { Semaphore } from '@slipway/shared/async'
import { errorText } from '@slipway/shared/text'
import {
  type AppConversationRow,
  actorOf,
  type ControlPlaneStore,
  everyOwner,
  type SandboxRow,
  type UserRows,
} from '@slipway/storage/control-plane'
import { AdminReach, isWithinReach } from '../auth/admin-reach.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import { toHexId } from '../conversations/records/conversation-ids.ts'
import { parseMetadata, visibleSandboxStatus } from '../conversations/records/conversation-info.ts'
import type { Sandboxes } from '../sandboxes/sandboxes.ts'
import { shownStatus } from '../sandboxes/state/sandbox-repository.ts'
import type { SandboxSpecs } from '../sandboxes/state/specs.ts'
import { findStatusReason } from '../sandboxes/state/status-reason.ts'

interface OverviewDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'sandboxes' | 'conversations' | 'users'>
  readonly sandboxes: Pick<Sandboxes, 'get' | 'pause' | 'remove' | 'find' | 'lastUse'>
  readonly specs: Pick<SandboxSpecs, 'find'>
  readonly log: LogFunction
}

/** Of one request: a pause waits for its backend. */
const concurrentChanges = 8

/** What administrators see of the sandboxes and conversations of others, and do with them. */
export function overviewHandlers({ controlPlane, sandboxes, specs, log }: OverviewDeps) {
  const { users } = controlPlane
  const reach = new AdminReach(users)
  /** A Problem `not_found` for one of another organisation than that of the key. */
  const findSandbox = async (caller: Caller, id: string): Promise<SandboxRow> => {
    const row = await sandboxes.get(everyOwner, id)
    if (!isWithinReach(caller, row)) throw new Problem('not_found', 'There is no such sandbox')
    return row
  }
  return {
    async listAllSandboxes(request) {
      const { user_id: owner, sort_order = 'CREATED_AT_DESC', ...query } = request.query
      const org = reachedOrg(await reach.asManager(getCaller(request), query.org_id), query.org_id)
      if (org === noOrg) return emptyPage
      const { items, next_page_id } = await controlPlane.sandboxes.searchAll({
        ...query,
        owner,
        org,
        sort_order,
      })
      const [names, totals] = await Promise.all([
        findNames(users, items),
        controlPlane.sandboxes.totals(items.map(({ id }) => id)),
      ])
      const infos = items.map((row) => {
        const { cost = 0, conversations = 0 } = totals.get(row.id) ?? {}
        const user_name = names.get(row.owner) ?? null
        return {
          ...toOwnedSandbox(row, specs, sandboxes.lastUse(row)),
          user_name,
          cost: cost / 1e6,
          conversations,
        }
      })
      return { json: { items: infos, next_page_id } }
    },
    async listAllConversations(request) {
      const { user_id: owner, org_id, execution_status: status, text: title, ...page } = request.query
      const { sort_order = 'CREATED_AT_DESC' } = page
      const org = reachedOrg(getCaller(request), org_id)
      if (org === noOrg) return emptyPage
      const query = { ...page, owner, org, status, title, sort_order }
      const { items, next_page_id } = await controlPlane.conversations.searchAll(query)
      const [names, found] = await Promise.all([
        findNames(users, items),
        sandboxes.find([...new Set(items.map(({ sandbox }) => sandbox))]),
      ])
      const byId = new Map(found.map((row) => [row?.id, row]))
      const infos = items.map((row) => ({
        ...toOwnedConversation(row, byId.get(row.sandbox)),
        user_name: names.get(row.owner) ?? null,
      }))
      return { json: { items: infos, next_page_id } }
    },
    async changeSandboxes(request) {
      const caller = getCaller(request)
      const by = { actor: actorOf(caller.owner) }
      const { action, ids } = request.body
      const semaphore = new Semaphore(concurrentChanges)
      const change = async (id: string) => {
        const row = await findSandbox(caller, id)
        await (action === 'pause' ? sandboxes.pause(row, by) : sandboxes.remove(row, by))
      }
      // An id that comes twice is changed once.
      const outcomes = new Map(
        [...new Set(ids)].map((id) => [id, semaphore.run(() => outcomeOf(change(id), log))]),
      )
      const results = ids.map(async (id) => ({ id, ...(await (outcomes.get(id) ?? done)) }))
      return { json: { results: await Promise.all(results) } }
    },
    async deleteAnySandbox(request) {
      const caller = getCaller(request)
      const row = await findSandbox(caller, request.params.sandbox_id)
      await sandboxes.remove(row, { actor: actorOf(caller.owner) })
      return { json: { success: true } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const noOrg = Symbol('none')
const emptyPage = { json: { items: [], next_page_id: null } }
const done = { status: 200, detail: null }

/**
 * The organisation whose rows are listed; undefined: all. `noOrg`: the key does not reach the one asked for.
 */
function reachedOrg({ boundOrg }: Caller, wanted: string | undefined): string | undefined | typeof noOrg {
  if (boundOrg === null) return wanted
  return wanted === undefined || wanted === boundOrg ? boundOrg : noOrg
}

/** Names or emails by the id of the user. */
async function findNames(
  users: Pick<UserRows, 'getUser'>,
  rows: readonly { readonly owner: string | null }[],
): Promise<ReadonlyMap<string | null, string | null>> {
  const ids = [...new Set(rows.map(({ owner }) => owner).filter((id) => id !== null))]
  const found = await Promise.all(ids.map((id) => users.getUser(id)))
  return new Map(found.map((user) => [user?.id ?? null, user?.name ?? user?.email ?? null]))
}

/** As the action alone would answer. */
async function outcomeOf(
  change: Promise<void>,
  log: LogFunction,
): Promise<{ status: number; detail: string | null }> {
  try {
    await change
    return done
  } catch (error) {
    if (error instanceof Problem) return { status: statusByCode[error.code], detail: error.message }
    log('error', 'a sandbox could not be changed', { error: errorText(error) })
    return { status: 500, detail: 'It failed; the log of the server says why' }
  }
}

function toOwnedSandbox(
  row: SandboxRow,
  specs: OverviewDeps['specs'],
  usedAt: Instant,
): Omit<OwnedSandbox, 'user_name' | 'cost' | 'conversations'> {
  const status = shownStatus(row)
  return {
    id: row.id,
    user_id: row.owner,
    org_id: row.org,
    sandbox_spec_id: row.spec,
    status,
    status_detail: row.detail,
    status_reason: findStatusReason({ ...row, status, spec: specs.find(row.spec) }),
    created_at: formatInstant(row.created_at),
    used_at: formatInstant(usedAt),
  }
}

function toOwnedConversation(
  row: AppConversationRow,
  sandbox: SandboxRow | undefined,
): Omit<OwnedConversation, 'user_name'> {
  const { metrics, llm_model } = parseMetadata(row)
  return {
    id: toHexId(row.id),
    title: row.title,
    user_id: row.owner,
    org_id: row.org,
    sandbox_id: row.sandbox,
    sandbox_status: visibleSandboxStatus(sandbox),
    execution_status: executionStatus.safeParse(row.status).data ?? null,
    llm_model: llm_model ?? null,
    cost: metrics?.accumulated_cost ?? 0,
    created_at: formatInstant(row.created_at),
    updated_at: formatInstant(row.updated_at),
  }
}
