import type { Handlers } from '@slipway/http'
import { invalidInput, type sandboxServerRoutes } from '@slipway/protocol'
import {
  actorOf,
  ownedBy,
  type SandboxActor,
  type SandboxRow,
  type Scope,
} from '@slipway/storage/control-plane'
import type { LookupSecrets } from '../accounts/lookup-secrets.ts'
import { getCaller, hideSessionKey } from '../auth/authenticator.ts'
import type { Sandboxes } from './sandboxes.ts'
import type { SandboxSpecs } from './state/specs.ts'

const success = { json: { success: true } }

/** A handler that changes a sandbox of the caller. */
function changeOwn(
  sandboxes: Pick<Sandboxes, 'get'>,
  change: (row: SandboxRow, by: SandboxActor) => Promise<void>,
) {
  return async (request: { readonly caller: unknown; readonly params: { readonly sandbox_id: string } }) => {
    const caller = getCaller(request)
    const row = await sandboxes.get(caller, request.params.sandbox_id)
    await change(row, { actor: actorOf(caller.owner) })
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
      const [json] = await Promise.all([sandboxes.getInfo(row), lookupSecrets.grantAll(row)])
      return { json }
    },
    pauseSandbox: changeOwn(sandboxes, (row, by) => sandboxes.pause(row, by)),
    resumeSandbox: changeOwn(sandboxes, (row, by) => sandboxes.resume(row, by)),
    archiveSandbox: changeOwn(sandboxes, (row, by) => sandboxes.archive(row, by)),
    async deleteSandbox(request) {
      const { sandbox_id } = request.params
      const other = request.query.sandbox_id
      if (other !== undefined && other !== sandbox_id) {
        throw invalidInput(['query', 'sandbox_id'], 'The sandbox must be the one of the path')
      }
      const caller = getCaller(request)
      const row = await sandboxes.get(caller, sandbox_id)
      await sandboxes.remove(row, { actor: actorOf(caller.owner) })
      return success
    },
    searchSandboxSpecs: ({ query }) => ({ json: specs.listPage(query) }),
    getSandboxSpecs: ({ query }) => ({ json: query.id.map((id) => specs.getInfo(id) ?? null) }),
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
