/**
 * What an organisation gives to the work of its members, and what it allows.
 *
 * Problem: a team has one key of a model and one MCP server, and its members are not to use others. Idea:
 * work belongs to the organisation of its request (`Scope`). Where the control plane starts something, it
 * adds what the organisation shares and refuses what it does not allow.
 *
 * Invariants:
 * - What is shared reaches sandboxes of members and no answer: routes show names, and to owners and admins
 *   the rest without secrets. It is sealed in documents of the organisation, whose name is that of no user.
 * - A profile or server of the member's own of the same name comes first: what an admin adds changes nothing
 *   that a member has set. Their members are never mixed, so no key goes to an address of somebody else.
 * - Limits are for what the control plane chooses. Who holds the session key of a sandbox may give its agent
 *   server another model, with another key: reports of usage show it. Networks of specs prevent it.
 */
import { type Llm, llm, type McpServer, mcpServers, Problem } from '@slipway/protocol'
import { isRecord, mapMembers } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'
import { matchesStars } from '@slipway/shared/text'
import type { JsonDocument } from '@slipway/storage'
import { documentsOfOrg, type OrgRow, type UserRows } from '@slipway/storage/control-plane'
import type { UserLlmProfiles } from '../accounts/llm-profiles.ts'
import { type AccountDocuments, userDocument } from '../accounts/user-documents.ts'

type Servers = Readonly<Record<string, McpServer>>

/** For the work of one member. */
export interface SharedSettings {
  readonly profiles: Readonly<Record<string, Llm>>
  /** The name of the profile of members who have set no model. */
  readonly active: string | null
  readonly mcpServers: Servers
}

interface OrganizationsDeps extends AccountDocuments {
  readonly users: Pick<UserRows, 'getOrg' | 'getRole' | 'listManagers'>
  readonly llmProfiles: UserLlmProfiles
  /** The default one first. */
  readonly specs: { list(): readonly { readonly id: string }[] }
}

const maxMcpServers = 50
const nothing: SharedSettings = { profiles: {}, active: null, mcpServers: {} }

export class Organizations {
  readonly #deps: OrganizationsDeps
  readonly #servers: JsonDocument<{ readonly servers: Servers }>

  constructor(deps: OrganizationsDeps) {
    this.#deps = deps
    this.#servers = userDocument(deps, 'mcp', {
      empty: { servers: {} },
      show: ({ servers }) => ({ servers: mapMembers(servers, (one) => maskServer(one as McpServer)) }),
      parse: (value) => ({ servers: mcpServers.parse(isRecord(value) ? value.servers : {}) }),
    })
  }

  /** Nothing for who is no member, such as one who has left it. */
  async sharedWith(owner: string | null, org: string | null | undefined): Promise<SharedSettings> {
    if (owner === null || !org || (await this.#deps.users.getRole(org, owner)) === undefined) return nothing
    const { profiles, active } = await this.#deps.llmProfiles.readAll(documentsOfOrg(org))
    return { profiles, active, mcpServers: await this.listMcpServers(org) }
  }

  async listMcpServers(org: string): Promise<Servers> {
    return (await this.#servers.read(documentsOfOrg(org))).servers
  }

  /** Adds or replaces one. A Problem `conflict` above the limit. */
  async saveMcpServer(org: string, name: string, server: McpServer): Promise<void> {
    await this.#servers.update(({ servers }) => {
      const changed = { ...servers, [name]: server }
      if (Object.keys(changed).length > maxMcpServers)
        throw new Problem('conflict', `An organisation has at most ${maxMcpServers} MCP servers`)
      return { servers: changed }
    }, documentsOfOrg(org))
  }

  /** False when there was none. */
  async removeMcpServer(org: string, name: string): Promise<boolean> {
    let existed = false
    await this.#servers.update((stored) => {
      existed = Object.hasOwn(stored.servers, name)
      if (!existed) return stored
      return { servers: Object.fromEntries(Object.entries(stored.servers).filter(([key]) => key !== name)) }
    }, documentsOfOrg(org))
    return existed
  }

  /** What work of the organisation may use; without one everything. */
  async limitsOf(org: string | null | undefined): Promise<OrganizationLimits> {
    const { users, specs } = this.#deps
    const row = org ? await users.getOrg(org) : undefined
    if (!row?.allowed_models && !row?.allowed_specs) return new OrganizationLimits(undefined, [], [])
    const managers = (await users.listManagers(row.id)).map(({ name, email, id }) => name ?? email ?? id)
    return new OrganizationLimits(
      row,
      managers.slice(0, 3),
      specs.list().map(({ id }) => id),
    )
  }
}

/** Any header or variable may be a secret, whatever its name. */
export function maskServer({ env, headers, auth, ...server }: McpServer): McpServer {
  const mask = (members: Readonly<Record<string, string>>) => mapMembers(members, () => redactedText)
  const shown = redact(server, redactedText) as McpServer // the address and arguments may have secrets too
  return {
    ...shown,
    ...(env && { env: mask(env) as Record<string, string> }),
    ...(headers && { headers: mask(headers) as Record<string, string> }),
    ...(auth === undefined ? {} : { auth: redactedText }),
  }
}

/** The models and sandbox specs that an organisation allows. */
export class OrganizationLimits {
  readonly #org: OrgRow | undefined
  /** Names of those who can change it. */
  readonly #managers: readonly string[]
  readonly #specs: readonly string[]

  constructor(org: OrgRow | undefined, managers: readonly string[], specs: readonly string[]) {
    this.#org = org
    this.#managers = managers
    this.#specs = specs
  }

  /**
   * A Problem `forbidden` for a model, one of its fallbacks, or one in its request body, that is not
   * allowed.
   */
  requireModel(model: Pick<Llm, 'model'> & Partial<Llm>): void {
    const allowed = this.#org?.allowed_models ?? undefined
    const refused = allowed && namesOf(model).find((name) => !allowed.some((one) => matchesStars(name, one)))
    if (refused !== undefined) throw this.#refusal('model', refused, allowed ?? [])
  }

  allowsSpec(spec: string): boolean {
    return this.#org?.allowed_specs?.includes(spec) ?? true
  }

  requireSpec(spec: string): void {
    if (!this.allowsSpec(spec)) throw this.#refusal('sandbox spec', spec, this.#org?.allowed_specs ?? [])
  }

  /**
   * The spec that is asked for, otherwise the first that is allowed; undefined: the default of the server.
   */
  chooseSpec(requested: string | undefined): string | undefined {
    if (requested === undefined && !this.#org?.allowed_specs) return undefined
    const spec = requested ?? this.#specs.find((id) => this.allowsSpec(id)) ?? this.#specs[0]
    if (spec !== undefined) this.requireSpec(spec)
    return spec
  }

  #refusal(what: 'model' | 'sandbox spec', name: string, allowed: readonly string[]): Problem {
    const whom = this.#managers.length === 0 ? 'an administrator of the server' : this.#managers.join(', ')
    const message = `The organisation ${this.#org?.name} does not allow the ${what} ${name}. Allowed: ${allowed.join(', ')}. Ask ${whom}.`
    const code = what === 'model' ? 'model_not_allowed' : 'spec_not_allowed'
    return new Problem('forbidden', message, undefined, { code, allowed })
  }
}

/** Also of fallbacks, which may be names of profiles, and of members that are sent as they are. */
function namesOf({ model, fallback_strategy, litellm_extra_body: extra }: Partial<Llm>): string[] {
  const fallbacks = (fallback_strategy?.fallback_llms ?? []).flatMap((one) => {
    const parsed = llm.safeParse(one)
    return typeof one === 'string' ? [one] : parsed.success ? namesOf(parsed.data) : ['(unnamed)']
  })
  const sent = [extra?.model, extra?.models].flat().filter((name) => name !== undefined)
  return [model, ...fallbacks, ...sent].map(String)
}
