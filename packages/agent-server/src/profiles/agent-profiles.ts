import { randomUUID } from 'node:crypto'
import {
  type AgentProfile,
  type AgentProfileDiagnostics,
  type AgentProfileSummary,
  agentProfile,
  type KeptAgentProfile,
  type Llm,
  Problem,
} from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { KeptFile } from '../documents/json-file.ts'
import type { ServerSettings } from '../settings/server-settings.ts'
import type { ProfileReferences, Profiles } from './llm-profiles.ts'
import { diagnosed, type Referred, resolvedProfile } from './resolve-agent-profile.ts'

interface Options {
  readonly path: string
  readonly cipher: Cipher
  readonly models: Pick<Profiles, 'usable' | 'active'>
  /** Also keeps which profile is active. */
  readonly settings: Pick<ServerSettings, 'agent' | 'read' | 'change'>
  /** The skills that every conversation of the user has. */
  readonly skills: (signal: AbortSignal) => Promise<readonly { readonly name: string }[]>
  readonly max?: number
}

/** What a conversation that is started by a profile is started with. `agentSettings` holds secrets. */
export interface Launch {
  readonly agentSettings: Record<string, unknown>
  readonly launched: { readonly agent_profile_id: string; readonly revision: number }
}

/**
 * What agents are, by references to models and MCP servers: one sealed file. Changes are on the disk when their promise
 * resolves. There is always a profile for who asks for the list: an empty one gets the profile `default`, which becomes active.
 * A file that cannot be read is a Problem `conflict` of every method.
 */
export class AgentProfiles implements ProfileReferences {
  readonly #options: Options
  readonly #max: number
  readonly #file: KeptFile<readonly KeptAgentProfile[]>

  /** The file is made with the first profile. */
  constructor(options: Options) {
    this.#options = options
    this.#max = options.max ?? 50
    this.#file = new KeptFile({ path: options.path, empty: [], parse: parsed, cipher: options.cipher })
  }

  /** In order of name. */
  async list(): Promise<AgentProfileSummary[]> {
    return (await this.#all()).map(summary).sort((a, b) => (a.name < b.name ? -1 : 1))
  }

  /** The id of the active profile; undefined when none is, or when it is gone. */
  async active(): Promise<string | undefined> {
    const id = await this.#activeId()
    return id !== undefined && (await this.has(id)) ? id : undefined
  }

  async has(id: string): Promise<boolean> {
    return (await this.#all()).some((profile) => profile.id === id)
  }

  async get(name: string): Promise<KeptAgentProfile | undefined> {
    return (await this.#all()).find((profile) => profile.name === name)
  }

  /** One of the same name keeps its id, and its revision becomes one more. A Problem `conflict` when it is one too many. */
  async save(name: string, profile: AgentProfile): Promise<void> {
    await this.#file.change((profiles) => {
      const old = profiles.find((other) => other.name === name)
      if (old === undefined && profiles.length >= this.#max)
        throw new Problem(
          'conflict',
          `There are ${profiles.length} agent profiles, and no more than ${this.#max} may be`,
        )
      const id = old?.id ?? randomUUID()
      const saved = { ...profile, id, name, revision: old === undefined ? 1 : old.revision + 1 }
      return [...profiles.filter((other) => other !== old), saved]
    })
  }

  /** Problems: `not_found`, and `conflict` when the new name is taken. */
  async rename(name: string, newName: string): Promise<void> {
    await this.#all()
    await this.#file.change((profiles) => {
      if (!profiles.some((profile) => profile.name === name)) throw unknownName(name)
      if (name === newName) return profiles
      if (profiles.some((profile) => profile.name === newName))
        throw new Problem('conflict', `There is an agent profile ${newName} already`)
      return profiles.map((profile) => (profile.name === name ? { ...profile, name: newName } : profile))
    })
  }

  /** False when there was none. An active one leaves none active. */
  async remove(name: string): Promise<boolean> {
    const removed = (await this.#file.read()).find((profile) => profile.name === name)
    if (removed === undefined) return false
    await this.#file.change((profiles) => profiles.filter(({ id }) => id !== removed.id))
    await this.#point((id) => (id === removed.id ? undefined : id))
    return true
  }

  /** A Problem `not_found` when there is none of this id. */
  async activate(id: string): Promise<void> {
    if (!(await this.has(id))) throw unknownId(id)
    await this.#point(() => id)
  }

  /** The names of the profiles that use the LLM profile of this name. */
  async refersTo(model: string): Promise<readonly string[]> {
    const using = (await this.#file.read()).filter((profile) => modelOf(profile) === model)
    return using.map(({ name }) => name)
  }

  /** Follows an LLM profile that has another name from now on. Who is meant stays the same, so revisions do too. */
  async renamed(model: string, newModel: string): Promise<void> {
    await this.#file.change((profiles) => {
      if (model === newModel || !profiles.some((profile) => modelOf(profile) === model)) return profiles
      return profiles.map((profile) =>
        profile.agent_kind === 'openhands' && profile.llm_profile_ref === model
          ? { ...profile, llm_profile_ref: newModel }
          : profile,
      )
    })
  }

  /**
   * The settings that the profile of this id stands for now. Problems: `not_found` for an unknown id and for an LLM profile that is
   * gone, `invalid` with `dangling_mcp_server_refs` for MCP servers that the settings do not have, and for an agent of another kind.
   */
  async resolve(id: string): Promise<Launch> {
    const profile = (await this.#all()).find((other) => other.id === id)
    if (profile === undefined) throw unknownId(id)
    const referred = await this.#referred(profile, [])
    if (profile.agent_kind === 'openhands' && referred.llm === undefined)
      throw new Problem('not_found', `LLM profile '${profile.llm_profile_ref}' not found`)
    const { settings, danglingMcpServers, errors } = resolvedProfile(profile, referred)
    if (settings === undefined)
      throw new Problem('invalid', errors.join(' '), undefined, {
        dangling_mcp_server_refs: danglingMcpServers,
      })
    return { agentSettings: settings, launched: { agent_profile_id: profile.id, revision: profile.revision } }
  }

  /** What `resolve` would give, told without secrets; a Problem `not_found` for an unknown name. */
  async diagnose(name: string, signal: AbortSignal): Promise<AgentProfileDiagnostics> {
    const profile = await this.get(name)
    if (profile === undefined) throw unknownName(name)
    const skills = (await this.#options.skills(signal)).map((skill) => skill.name)
    return diagnosed(profile, await this.#referred(profile, skills))
  }

  async #referred(profile: KeptAgentProfile, skills: readonly string[]): Promise<Referred> {
    const { models, settings } = this.#options
    const name = modelOf(profile)
    const llm = name === undefined ? undefined : await readable(() => models.usable(name))
    return { llm, settings: await settings.agent(), skills }
  }

  async #all(): Promise<readonly KeptAgentProfile[]> {
    const profiles = await this.#file.read()
    if (profiles.length > 0) return profiles
    const seed = seeded((await this.#options.models.active()) ?? 'default')
    const now = await this.#file.change((profiles) => (profiles.length > 0 ? profiles : [seed]))
    if (now.includes(seed)) await this.#point((id) => id ?? seed.id)
    return now
  }

  async #activeId(): Promise<string | undefined> {
    return (await this.#options.settings.read()).active_agent_profile_id
  }

  /** Makes another profile the active one, or none. */
  async #point(work: (id: string | undefined) => string | undefined): Promise<void> {
    await this.#options.settings.change((kept) => {
      const id = work(kept.active_agent_profile_id)
      return id === kept.active_agent_profile_id ? kept : { ...kept, active_agent_profile_id: id }
    })
  }
}

function parsed(value: unknown): readonly KeptAgentProfile[] {
  if (!Array.isArray(value)) throw new Error('a list of agent profiles is expected')
  return value.map((item) => {
    const profile = agentProfile.parse(item)
    const { id, name, revision } = profile
    if (id == null || name == null || revision == null) throw new Error('an agent profile has no identity')
    return { ...profile, id, name, revision }
  })
}

function seeded(model: string): KeptAgentProfile {
  const profile = agentProfile.parse({ agent_kind: 'openhands', llm_profile_ref: model })
  return { ...profile, id: randomUUID(), name: 'default', revision: 1 }
}

function summary(profile: KeptAgentProfile): AgentProfileSummary {
  const { id, name, agent_kind, revision, mcp_server_refs } = profile
  return { id, name, agent_kind, revision, llm_profile_ref: modelOf(profile) ?? null, mcp_server_refs }
}

function modelOf(profile: KeptAgentProfile): string | undefined {
  return profile.agent_kind === 'openhands' ? profile.llm_profile_ref : undefined
}

/** A model that cannot be read is one fault of its profile and none of the request. */
async function readable(get: () => Promise<Llm | undefined>): Promise<Referred['llm']> {
  try {
    return await get()
  } catch (error) {
    if (error instanceof Problem) return { fault: error.message }
    throw error
  }
}

function unknownName(name: string): Problem {
  return new Problem('not_found', `Agent profile not found: ${name}`)
}

function unknownId(id: string): Problem {
  return new Problem('not_found', `Agent profile not found: ${id}`)
}
