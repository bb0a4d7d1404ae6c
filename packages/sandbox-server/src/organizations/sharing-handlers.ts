import type { Handlers } from '@slipway/http'
import {
  type CreateMcpServerRequest,
  invalidInput,
  type McpServer,
  mcpServer,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { ownMember } from '@slipway/shared/json'
import { documentsOfOrg, type OrgRole, type UserRows } from '@slipway/storage/control-plane'
import type { Accounts } from '../accounts/accounts.ts'
import { profileSummary } from '../accounts/profile-handlers.ts'
import { AdminReach } from '../auth/admin-reach.ts'
import { getCaller } from '../auth/authenticator.ts'
import { maskServer, type Organizations } from './organizations.ts'

/** Models and MCP servers that organisations share; secrets are in no answer. */
export function sharingHandlers(deps: {
  readonly users: UserRows
  readonly accounts: Pick<Accounts, 'llmProfiles'>
  readonly organizations: Organizations
}) {
  const { organizations } = deps
  const { llmProfiles } = deps.accounts
  const reach = new AdminReach(deps.users)
  const find = (request: { caller: unknown; params: { org_id: string } }, needed: OrgRole) =>
    reach.findOrgAs(getCaller(request), request.params.org_id, needed)
  /** The owner of the documents, for an owner or admin. */
  const findDocuments = async (request: { caller: unknown; params: { org_id: string } }) =>
    documentsOfOrg((await find(request, 'admin')).org.id)
  return {
    async listSharedProfiles(request) {
      const { org } = await find(request, 'member')
      const { profiles, active } = await llmProfiles.readAll(documentsOfOrg(org.id))
      const summaries = Object.entries(profiles).map(([name, model]) => profileSummary(name, model))
      return { json: { profiles: summaries, active_profile: active } }
    },
    async saveSharedProfile(request) {
      const owner = await findDocuments(request)
      const { name } = request.params
      const { llm, preserve_existing_api_key } = request.body
      const previous = ownMember((await llmProfiles.readAll(owner)).profiles, name)
      const api_key = llm.api_key ?? (preserve_existing_api_key ? previous?.api_key : undefined)
      await llmProfiles.save(owner, name, { ...llm, ...(api_key === undefined ? {} : { api_key }) })
      return success
    },
    async deleteSharedProfile(request) {
      const { existed } = await llmProfiles.remove(await findDocuments(request), request.params.name, {
        isPromoting: false,
      })
      if (!existed) throw new Problem('not_found', 'There is no such profile')
      return success
    },
    async activateSharedProfile(request) {
      const owner = await findDocuments(request)
      const { name } = request.params
      await llmProfiles.get(owner, name)
      await llmProfiles.setActive(owner, name)
      return success
    },
    async listSharedMcpServers(request) {
      const { org, role } = await find(request, 'member')
      const servers = Object.entries(await organizations.listMcpServers(org.id))
      const items = servers.map(([name, server]) => ({
        name,
        server: role === 'member' ? null : maskServer(server),
      }))
      return { json: { items } }
    },
    async saveSharedMcpServer(request) {
      const { org } = await find(request, 'admin')
      await organizations.saveMcpServer(org.id, request.params.name, parseServer(request.body))
      return success
    },
    async deleteSharedMcpServer(request) {
      const { org } = await find(request, 'admin')
      if (await organizations.removeMcpServer(org.id, request.params.name)) return success
      throw new Problem('not_found', 'There is no such MCP server')
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

function parseServer({ enabled, ...members }: CreateMcpServerRequest): McpServer {
  const disabled = enabled === undefined ? members.disabled : !enabled
  const parsed = mcpServer.safeParse({ ...members, disabled })
  if (!parsed.success) throw invalidInput(['body'], parsed.error.issues[0]?.message ?? 'Invalid server')
  for (const member of ['headers', 'env'] as const)
    for (const [name, value] of Object.entries(parsed.data[member] ?? {}))
      if (/^\*+$/.test(value)) throw invalidInput(['body', member, name], 'A mask is no value')
  return parsed.data
}

const success = { json: { success: true } }
