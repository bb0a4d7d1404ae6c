import { randomUUID } from 'node:crypto'
import {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  type Llm,
  Problem,
  type StoredAgentProfile,
} from '@slipway/protocol'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'
import type { ServerSettings } from '../settings/server-settings.ts'
import type { LlmProfiles, ProfileReferences } from './llm-profiles.ts'
import {
  diagnoseAgentProfile,
  type ResolvedReferences,
  resolveAgentProfile,
} from './resolve-agent-profile.ts'

interface AgentProfilesOptions {
  readonly path: string
  readonly cipher: Cipher
  readonly llmProfiles: Pick<LlmProfiles, 'resolve' | 'getActiveName'>
  /** Also stores which profile is active. */
  readonly settings: Pick<ServerSettings, 'getAgentSettings' | 'read' | 'modify'>
  /** The user's skills, which every conversation has. */
  readonly listUserSkills: (signal: AbortSignal) => Promise<readonly { readonly name: string }[]>
  readonly max?: number
}

/**
 * Agents by reference to LLM profiles and MCP servers: one sealed file. An empty list gets the profile
 * `default`, which becomes active. An unreadable file is a Problem `conflict`.
 */
export class AgentProfiles implements ProfileReferences {
  readonly #options: AgentProfilesOptions
  readonly #file: JsonDocument<readonly StoredAgentProfile[]>

  constructor(options: AgentProfilesOptions) {
    this.#options = options
    this.#file = openJsonFile({ path: options.path, empty: [], parse: parseProfiles, cipher: options.cipher })
  }

  /** In order of name. */
  async list(): Promise<AgentProfileSummary[]> {
    return (await this.#readOrSeed()).map(toSummary).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Undefined when no profile is active or the active one was removed. */
  async getActiveId(): Promise<string | undefined> {
    const id = (await this.#options.settings.read()).active_agent_profile_id
    return id !== undefined && (await this.has(id)) ? id : undefined
  }

  async has(id: string): Promise<boolean> {
    return (await this.#readOrSeed()).some((profile) => profile.id === id)
  }

  async get(name: string): Promise<StoredAgentProfile | undefined> {
    return (await this.#readOrSeed()).find((profile) => profile.name === name)
  }

  /** Adds or replaces a profile; the id stays, the revision grows. A Problem `conflict` above the limit. */
  async save(name: string, profile: AgentProfile): Promise<void> {
    const { max = 50 } = this.#options
    await this.#file.update((profiles) => {
      const existing = profiles.find((other) => other.name === name)
      if (existing === undefined && profiles.length >= max)
        throw new Problem(
          'conflict',
          `There are ${profiles.length} agent profiles, and no more than ${max} may be`,
        )
      const id = existing?.id ?? randomUUID()
      const updated = { ...profile, id, name, revision: existing === undefined ? 1 : existing.revision + 1 }
      return [...profiles.filter((other) => other !== existing), updated]
    })
  }

  /** Problems: `not_found`, and `conflict` when the new name is in use. */
  async rename(name: string, newName: string): Promise<void> {
    await this.#readOrSeed()
    await this.#file.update((profiles) => {
      if (!profiles.some((profile) => profile.name === name)) throw profileNotFound(name)
      if (name === newName) return profiles
      if (profiles.some((profile) => profile.name === newName))
        throw new Problem('conflict', `There is an agent profile ${newName} already`)
      return profiles.map((profile) => (profile.name === name ? { ...profile, name: newName } : profile))
    })
  }

  /** Returns false when there was none. */
  async remove(name: string): Promise<boolean> {
    const existing = (await this.#file.read()).find((profile) => profile.name === name)
    if (existing === undefined) return false
    await this.#file.update((profiles) => profiles.filter(({ id }) => id !== existing.id))
    await this.#updateActiveId((id) => (id === existing.id ? undefined : id))
    return true
  }

  /** A Problem `not_found` for an unknown id. */
  async activate(id: string): Promise<void> {
    if (!(await this.has(id))) throw profileNotFound(id)
    await this.#updateActiveId(() => id)
  }

  /** The names of the profiles that use the LLM profile of this name. */
  async findReferences(model: string): Promise<readonly string[]> {
    const referencing = (await this.#file.read()).filter((profile) => llmProfileName(profile) === model)
    return referencing.map(({ name }) => name)
  }

  /** Follows the rename of an LLM profile. The target stays the same, and so do the revisions. */
  async renameReferences(model: string, newModel: string): Promise<void> {
    await this.#file.update((profiles) => {
      if (!profiles.some((profile) => llmProfileName(profile) === model)) return profiles
      return profiles.map((profile) =>
        profile.agent_kind === 'openhands' && profile.llm_profile_ref === model
          ? { ...profile, llm_profile_ref: newModel }
          : profile,
      )
    })
  }

  /**
   * The settings that a profile resolves to. Problems: `not_found` for the id and for a missing LLM profile,
   * `invalid` for another kind of agent and, with `dangling_mcp_server_refs`, for missing MCP servers.
   */
  async resolve(id: string) {
    const profile = (await this.#readOrSeed()).find((other) => other.id === id)
    if (profile === undefined) throw profileNotFound(id)
    const references = await this.#resolveReferences(profile, [])
    if (profile.agent_kind === 'openhands' && references.llm === undefined)
      throw new Problem('not_found', `LLM profile '${profile.llm_profile_ref}' not found`)
    const { settings, danglingMcpServers, errors } = resolveAgentProfile(profile, references)
    if (settings === undefined)
      throw new Problem('invalid', errors.join(' '), undefined, {
        dangling_mcp_server_refs: danglingMcpServers,
      })
    return {
      agentSettings: settings,
      profileReference: { agent_profile_id: profile.id, revision: profile.revision },
    }
  }

  /** The redacted result of `resolve`; a Problem `not_found` for an unknown name. */
  async diagnose(name: string, signal: AbortSignal): Promise<AgentProfileDiagnostics> {
    const profile = await this.get(name)
    if (profile === undefined) throw profileNotFound(name)
    const skills = (await this.#options.listUserSkills(signal)).map((skill) => skill.name)
    return diagnoseAgentProfile(profile, await this.#resolveReferences(profile, skills))
  }

  async #resolveReferences(
    profile: StoredAgentProfile,
    skills: readonly string[],
  ): Promise<ResolvedReferences> {
    const { llmProfiles, settings } = this.#options
    const name = llmProfileName(profile)
    const llm = name === undefined ? undefined : await readLlm(() => llmProfiles.resolve(name))
    return { llm, settings: await settings.getAgentSettings(), skills }
  }

  async #readOrSeed(): Promise<readonly StoredAgentProfile[]> {
    const profiles = await this.#file.read()
    if (profiles.length > 0) return profiles
    const defaultProfile = createDefaultProfile(
      (await this.#options.llmProfiles.getActiveName()) ?? 'default',
    )
    const current = await this.#file.update((profiles) => (profiles.length > 0 ? profiles : [defaultProfile]))
    if (current.includes(defaultProfile)) await this.#updateActiveId((id) => id ?? defaultProfile.id)
    return current
  }

  async #updateActiveId(update: (id: string | undefined) => string | undefined): Promise<void> {
    await this.#options.settings.modify((current) => {
      const id = update(current.active_agent_profile_id)
      return id === current.active_agent_profile_id ? current : { ...current, active_agent_profile_id: id }
    })
  }
}

function parseProfiles(value: unknown): readonly StoredAgentProfile[] {
  if (!Array.isArray(value)) throw new Error('a list of agent profiles is expected')
  return value.map((item) => {
    const profile = agentProfile.parse(item)
    const { id, name, revision } = profile
    if (id == null || name == null || revision == null) throw new Error('an agent profile has no identity')
    return { ...profile, id, name, revision }
  })
}

function createDefaultProfile(model: string): StoredAgentProfile {
  const profile = agentProfile.parse({ agent_kind: 'openhands', llm_profile_ref: model })
  return { ...profile, id: randomUUID(), name: 'default', revision: 1 }
}

function toSummary(profile: StoredAgentProfile): AgentProfileSummary {
  const { id, name, agent_kind, revision, mcp_server_refs } = profile
  return { id, name, agent_kind, revision, llm_profile_ref: llmProfileName(profile) ?? null, mcp_server_refs }
}

function llmProfileName(profile: StoredAgentProfile): string | undefined {
  return profile.agent_kind === 'openhands' ? profile.llm_profile_ref : undefined
}

/** An unreadable LLM profile is an issue of the agent profile, not an error of the request. */
async function readLlm(read: () => Promise<Llm | undefined>): Promise<ResolvedReferences['llm']> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Problem) return { issue: error.message }
    throw error
  }
}

function profileNotFound(nameOrId: string): Problem {
  return new Problem('not_found', `Agent profile not found: ${nameOrId}`)
}
