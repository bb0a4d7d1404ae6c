import type { Handlers } from '@slipway/http'
import {
  formatInstant,
  invalidInput,
  type OwnedSandbox,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { everyOwner, ownedBy, type SandboxRow, type Scope } from '@slipway/storage/control-plane'
import type { LookupSecrets } from '../accounts/lookup-secrets.ts'
import { isWithinReach } from '../auth/admin-reach.ts'
import { getCaller, hideSessionKey } from '../auth/authenticator.ts'
import type { Sandboxes } from './sandboxes.ts'
import { shownStatus } from './state/sandbox-repository.ts'
import type { SandboxSpecs } from './state/specs.ts'

const success = { json: { success: true } }

/** What administrators see of the sandboxes of others: nothing that opens them. */
function ownedSandboxInfo(row: SandboxRow): OwnedSandbox {
  return {
    id: row.id,
    user_id: row.owner,
    org_id: row.org,
    sandbox_spec_id: row.spec,
    status: shownStatus(row),
    status_detail: row.detail,
    created_at: formatInstant(row.created_at),
  }
}

/** A handler that changes a sandbox of the caller. */
function changeOwn(sandboxes: Pick<Sandboxes, 'get'>, change: (row: SandboxRow) => Promise<void>) {
  return async (request: { readonly caller: unknown; readonly params: { readonly sandbox_id: string } }) => {
    await change(await sandboxes.get(getCaller(request), request.params.sandbox_id))
    return success
  }
}

/**
 * Sandboxes of the caller, and the specs (wire 1.2, 1.3); sandboxes of others are missing. Administrators list
 * and delete those of all users by their own routes.
 */
export function sandboxHandlers(deps: {
  readonly sandboxes: Sandboxes
  readonly specs: SandboxSpecs
  readonly lookupSecrets: Pick<LookupSecrets, 'grantAll'>
}) {
  const { sandboxes, specs, lookupSecrets } = deps
  /** Undefined for unknown ones and for those of others. */
  const findOwn = async (caller: Scope, ids: readonly string[]) => {
    const { includes } = ownedBy(caller)
    return (await sandboxes.find(ids)).map((row) => (row !== undefined && includes(row) ? row : undefined))
  }
  return {
    async searchSandboxes(request) {
      const caller = getCaller(request)
      const page = await sandboxes.search(caller, request.query)
      const items = await Promise.all(
        page.items.map(async (row) => hideSessionKey(caller, await sandboxes.getInfo(row))),
      )
      return { json: { items, next_page_id: page.next_page_id } }
    },
    async getSandboxes(request) {
      const caller = getCaller(request)
      const rows = await findOwn(caller, request.query.id)
      const infos = rows.map(async (row) =>
        row === undefined ? null : hideSessionKey(caller, await sandboxes.getInfo(row)),
      )
      return { json: await Promise.all(infos) }
    },
    async getSandboxUse(request) {
      const rows = await findOwn(getCaller(request), request.query.id)
      const uses = rows.map(async (row) => {
        const use = row && (await sandboxes.measureUse(row))
        if (row === undefined || use === undefined) return null
        const { memoryBytes, cpuSeconds, processes } = use
        return { sandbox_id: row.id, memory_bytes: memoryBytes, cpu_seconds: cpuSeconds, processes }
      })
      return { json: await Promise.all(uses) }
    },
    async startSandbox(request) {
      const row = await sandboxes.start(getCaller(request), {
        spec: request.query.sandbox_spec_id,
        idempotencyKey: request.header('idempotency-key'),
      })
      await lookupSecrets.grantAll(row)
      return { json: await sandboxes.getInfo(row) }
    },
    pauseSandbox: changeOwn(sandboxes, (row) => sandboxes.pause(row)),
    resumeSandbox: changeOwn(sandboxes, (row) => sandboxes.resume(row)),
    archiveSandbox: changeOwn(sandboxes, (row) => sandboxes.archive(row)),
    async deleteSandbox(request) {
      const { sandbox_id } = request.params
      const other = request.query.sandbox_id
      if (other !== undefined && other !== sandbox_id) {
        throw invalidInput(['query', 'sandbox_id'], 'The sandbox must be the one of the path')
      }
      await sandboxes.remove(await sandboxes.get(getCaller(request), sandbox_id))
      return success
    },
    async listAllSandboxes(request) {
      const { user_id, ...page } = request.query
      const scope = user_id === undefined ? everyOwner : { owner: user_id }
      const { items, next_page_id } = await sandboxes.search(scope, page)
      const shown = items.filter((row) => isWithinReach(getCaller(request), row))
      return { json: { items: shown.map(ownedSandboxInfo), next_page_id } }
    },
    async deleteAnySandbox(request) {
      const row = await sandboxes.get(everyOwner, request.params.sandbox_id)
      if (!isWithinReach(getCaller(request), row)) throw new Problem('not_found', 'There is no such sandbox')
      await sandboxes.remove(row)
      return success
    },
    searchSandboxSpecs: ({ query }) => ({ json: specs.listPage(query) }),
    getSandboxSpecs: ({ query }) => ({ json: query.id.map((id) => specs.getInfo(id) ?? null) }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
