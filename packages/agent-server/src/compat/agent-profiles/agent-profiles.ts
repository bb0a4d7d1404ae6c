import { randomUUID } from 'node:crypto'
import {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  isAcpSettings,
  type Llm,
  type MetaProfile,
  Problem,
  type StoredAgentProfile,
} from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { assertWritable, type ServerDocuments } from '../../core/documents/configured-documents.ts'
import { openDocument } from '../../core/documents/document.ts'
import type { LlmProfiles, ProfileReferences } from '../../modules/llm-profiles/module.ts'
import type { ServerSettings } from '../../modules/settings/module.ts'
import {
  danglingMetaProfile,
  diagnoseAgentProfile,
  metaProfileName,
  type ResolvedReferences,
  resolveAgentProfile,
} from './resolve-agent-profile.ts'

const documentName = 'agent-profiles.sealed'
/** Of the first agent profile, and of the LLM profile that is made for it. */
const defaultName = 'default'

interface AgentProfilesOptions {
  readonly documents: ServerDocuments
  readonly cipher: Cipher
  readonly llmProfiles: Pick<LlmProfiles, 'resolve' | 'getActiveName' | 'get' | 'save'>
  /** Absent: there are none. */
  readonly findMetaProfile?: (name: string) => Promise<MetaProfile | undefined>
  /** Also stores which profile is active. */
  readonly settings: Pick<ServerSettings, 'getAgentSettings' | 'read' | 'modify' | 'file'>
  /** The user's skills, which every conversation has. */
  readonly listUserSkills: (signal: AbortSignal) => Promise<readonly { readonly name: string }[]>
  readonly max?: number
}

/**
 * Agents by reference to LLM profiles and MCP servers: one sealed document. The first list makes the profile
 * `default`, which becomes active, unless a file sets the settings or this document. An unreadable one is a
 * Problem `conflict`.
 */
export class AgentProfiles implements ProfileReferences {
  readonly #options: AgentProfilesOptions
  readonly #document: JsonDocument<readonly StoredAgentProfile[]>

  constructor(options: AgentProfilesOptions) {
    this.#options = options
    const { documents, cipher } = options
    this.#document = openDocument(documents, documentName, {
      empty: [],
      parse: parseProfiles,
      cipher,
    })
  }

  /** In order of name. */
  async list(): Promise<AgentProfileSummary[]> {
    const profiles = await this.#document.read()
    const listed = profiles.length > 0 ? profiles : await this.#seed()
    return listed.map(toSummary).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** Undefined when no profile is active or the active one was removed. */
  async getActiveId(): Promise<string | undefined> {
    const id = (await this.#options.settings.read()).active_agent_profile_id
    return id !== undefined && (await this.has(id)) ? id : undefined
  }

  async has(id: string): Promise<boolean> {
    return (await this.getById(id)) !== undefined
  }

  async getById(id: string): Promise<StoredAgentProfile | undefined> {
    return (await this.#document.read()).find((profile) => profile.id === id)
  }

  async get(name: string): Promise<StoredAgentProfile | undefined> {
    return (await this.#document.read()).find((profile) => profile.name === name)
  }

  /** Adds or replaces a profile; the id stays, the revision grows. A Problem `conflict` above the limit. */
  async save(name: string, profile: AgentProfile): Promise<void> {
    const { max = 50 } = this.#options
    await this.#document.update((profiles) => {
      const existing = profiles.find((other) => other.name === name)
      if (existing === undefined && profiles.length >= max)
        throw new Problem(
          'conflict',
          `Agent profile limit reached (${max}). Delete a profile before saving a new one.`,
        )
      const id = existing?.id ?? randomUUID()
      const updated = { ...profile, id, name, revision: existing === undefined ? 0 : existing.revision + 1 }
      return [...profiles.filter((other) => other !== existing), updated]
    })
  }

  /** Problems: `not_found`, and `conflict` when the new name is in use. */
  async rename(name: string, newName: string): Promise<void> {
    await this.#document.update((profiles) => {
      if (!profiles.some((profile) => profile.name === name)) throw profileNotFound(name)
      if (name === newName) return profiles
      if (profiles.some((profile) => profile.name === newName))
        throw new Problem('conflict', `Agent profile '${newName}' already exists`)
      return profiles.map((profile) => (profile.name === name ? { ...profile, name: newName } : profile))
    })
  }

  /** Returns false when there was none. */
  async remove(name: string): Promise<boolean> {
    const existing = (await this.#document.read()).find((profile) => profile.name === name)
    if (existing === undefined) return false
    assertWritable(this.#options.documents, documentName)
    // First: a profile that is gone could not be removed again after an error here.
    await this.#options.settings.modify((current) => {
      const { active_agent_profile_id: id, agent_settings } = current
      if (id !== existing.id) return current
      // Settings of another program do not outlive their profile; the MCP servers are those of all.
      const remaining = isAcpSettings(agent_settings)
        ? { mcp_config: agent_settings.mcp_config }
        : agent_settings
      return { ...current, active_agent_profile_id: undefined, agent_settings: remaining }
    })
    await this.#document.update((profiles) => profiles.filter(({ id }) => id !== existing.id))
    return true
  }

  /** A Problem `not_found` for an unknown id. */
  async activate(id: string): Promise<void> {
    if (!(await this.has(id))) throw idNotFound(id)
    await this.#updateActiveId(() => id)
  }

  /** The names of the profiles that use the LLM profile of this name. */
  async findReferences(model: string): Promise<readonly string[]> {
    const referencing = (await this.#document.read()).filter((profile) => llmProfileName(profile) === model)
    return referencing.map(({ name }) => name)
  }

  /** Follows the rename of an LLM profile. The target stays the same, and so do the revisions. */
  async renameReferences(model: string, newModel: string): Promise<void> {
    await this.#document.update((profiles) => {
      if (!profiles.some((profile) => llmProfileName(profile) === model)) return profiles
      return profiles.map((profile) =>
        profile.agent_kind === 'openhands' && profile.llm_profile_ref === model
          ? { ...profile, llm_profile_ref: newModel }
          : profile,
      )
    })
  }

  /**
   * The settings that a profile resolves to. Problems: `not_found` for the id, `invalid` for another kind of
   * agent and, with the code `unresolved_profile_references`, for references to nothing.
   */
  async resolve(id: string) {
    const profile = await this.getById(id)
    if (profile === undefined) throw idNotFound(id)
    const references = await this.#resolveReferences(profile, [])
    const { settings, danglingMcpServers, errors } = resolveAgentProfile(profile, references)
    if (settings === undefined)
      throw new Problem('invalid', errors.join('; '), undefined, {
        code: 'unresolved_profile_references',
        dangling_llm_profile_ref: references.llm === undefined ? (llmProfileName(profile) ?? null) : null,
        dangling_mcp_server_refs: danglingMcpServers,
        dangling_meta_profile_ref: danglingMetaProfile(profile, references),
      })
    return {
      agentSettings: settings,
      profileReference: {
        agent_profile_id: profile.id,
        revision: profile.revision,
        secret_refs: profile.secret_refs,
      },
    }
  }

  /**
   * The redacted result of `resolve` for a draft, or else a profile: a Problem `not_found` for an unknown
   * name.
   */
  async diagnose(name: string, signal: AbortSignal, draft?: AgentProfile): Promise<AgentProfileDiagnostics> {
    const profile = draft ?? (await this.get(name))
    if (profile === undefined) throw profileNotFound(name)
    const skills = (await this.#options.listUserSkills(signal)).map((skill) => skill.name)
    return diagnoseAgentProfile(profile, await this.#resolveReferences(profile, skills))
  }

  async #resolveReferences(profile: AgentProfile, skills: readonly string[]): Promise<ResolvedReferences> {
    const { llmProfiles, settings } = this.#options
    const name = llmProfileName(profile)
    const llm = name === undefined ? undefined : await readLlm(() => llmProfiles.resolve(name))
    const rule = metaProfileName(profile)
    const metaProfile = rule === null ? undefined : await this.#options.findMetaProfile?.(rule)
    return { llm, metaProfile, settings: await settings.getAgentSettings(), skills }
  }

  /** Makes the first profile, unless one is active or another request is faster. */
  async #seed(): Promise<readonly StoredAgentProfile[]> {
    const { active_agent_profile_id: active, agent_settings } = await this.#options.settings.read()
    const { documents, settings } = this.#options
    if (active !== undefined || (settings.file ?? documents.fileOf?.(documentName)) !== undefined) return []
    const defaultProfile = createDefaultProfile(
      isAcpSettings(agent_settings)
        ? acpProfileMembers(agent_settings)
        : { llm_profile_ref: await this.#findDefaultModel() },
    )
    const current = await this.#document.update((profiles) =>
      profiles.length > 0 ? profiles : [defaultProfile],
    )
    if (current.includes(defaultProfile)) await this.#updateActiveId((id) => id ?? defaultProfile.id)
    return current
  }

  /**
   * The active LLM profile, or else the model of the settings, which is saved where somebody configured it.
   */
  async #findDefaultModel(): Promise<string> {
    const { llmProfiles, settings } = this.#options
    const active = await llmProfiles.getActiveName()
    if (active !== undefined) return active
    const { llm } = await settings.getAgentSettings()
    const isConfigured = llm.api_key !== undefined || (llm.base_url ?? '').trim() !== ''
    const existing = await readLlm(() => llmProfiles.get(defaultName))
    if (isConfigured && existing === undefined)
      await llmProfiles.save(defaultName, llm).catch((error: unknown) => {
        // Above the limit the reference dangles, which the diagnosis says.
        if (!(error instanceof Problem)) throw error
      })
    return defaultName
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

function acpProfileMembers({ acp_server, acp_model }: Readonly<Record<string, unknown>>): object {
  return { agent_kind: 'acp', acp_server: acp_server ?? 'claude-code', acp_model }
}

function createDefaultProfile(members: object): StoredAgentProfile {
  const profile = agentProfile.parse(members)
  return { ...profile, id: randomUUID(), name: defaultName, revision: 0 }
}

function toSummary(profile: StoredAgentProfile): AgentProfileSummary {
  const { id, name, agent_kind, revision, mcp_server_refs } = profile
  return { id, name, agent_kind, revision, llm_profile_ref: llmProfileName(profile) ?? null, mcp_server_refs }
}

function llmProfileName(profile: AgentProfile): string | undefined {
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

function idNotFound(id: string): Problem {
  return new Problem('not_found', `Agent profile with id '${firstChars(id, 128)}' not found`)
}

function profileNotFound(name: string): Problem {
  return new Problem('not_found', `Agent profile '${name}' not found`)
}
