import {
  type AgentSettings,
  agentSettings,
  agentSettingsSchemaOf,
  confirmationPolicy,
  conversationSettings,
  isAcpSettings,
  type Llm,
  type NamedMetaProfile,
  Problem,
  parseOrThrow,
  type StartConversationRequest,
  type StoredSettings,
  securityAnalyzer,
  storedSettings,
  toAgentSettingsJson,
  toConversationSettingsJson,
  type UpdateSettingsRequest,
} from '@slipway/protocol'
import { isRecord, mergePatch, restoreRedacted } from '@slipway/shared/json'
import { redactedText } from '@slipway/shared/redaction'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { assertWritable, type ServerDocuments } from '../../core/documents/configured-documents.ts'
import { openDocument } from '../../core/documents/document.ts'
import { redactSecrets } from '../../core/secrets/expose-secrets.ts'
import { openSealedTexts } from '../../core/secrets/sealed-text.ts'

const documentName = 'settings.sealed'

type JsonObject = Readonly<Record<string, unknown>>

/** Of the settings as JSON: they are in memory and sent as a whole. */
const maxCharacters = 4_000_000
const analyzerKinds = {
  llm: 'LLMSecurityAnalyzer',
  pattern: 'PatternSecurityAnalyzer',
  policy_rail: 'PolicyRailSecurityAnalyzer',
  none: undefined,
} as const
const invalidText = 'Settings validation failed'

/**
 * The members of the settings that the user has set: one sealed document, updated atomically and
 * durably. An unreadable one is a Problem `conflict`.
 */
export class ServerSettings {
  readonly #document: JsonDocument<StoredSettings>
  readonly #documents: ServerDocuments
  readonly #cipher: Cipher

  constructor({ documents, cipher }: { readonly documents: ServerDocuments; readonly cipher: Cipher }) {
    this.#cipher = cipher
    this.#documents = documents
    this.#document = openDocument(documents, documentName, {
      empty: storedSettings.parse({}),
      parse: (value) => {
        assertKnownMembers(value)
        const stored = storedSettings.parse(value)
        agentSettingsSchemaOf(stored.agent_settings).parse(stored.agent_settings)
        conversationSettings.parse(stored.conversation_settings)
        return stored
      },
      headline: 'Settings file is corrupted or encrypted with a different key',
      cipher,
    })
  }

  /** The path of the file that sets them, which makes them read-only. */
  get file(): string | undefined {
    return this.#documents.fileOf?.(documentName)
  }

  /** Before the first step of a change that ends with one of them. */
  assertWritable(): void {
    assertWritable(this.#documents, documentName)
  }

  async read(): Promise<StoredSettings> {
    return await this.#document.read()
  }

  /**
   * The settings of agents of this server, secrets in clear and defaults filled in; of `acp` only the MCP
   * servers.
   */
  async getAgentSettings(): Promise<AgentSettings> {
    const { agent_settings: stored } = await this.read()
    return agentSettings.parse(isAcpSettings(stored) ? { mcp_config: stored.mcp_config } : stored)
  }

  /** What the settings say of confirmations, as members of a create request. */
  async getConfirmation(): Promise<
    Pick<StartConversationRequest, 'confirmation_policy' | 'security_analyzer'>
  > {
    const { confirmation_mode, security_analyzer } = conversationSettings.parse(
      (await this.read()).conversation_settings,
    )
    if (!confirmation_mode) return { confirmation_policy: undefined, security_analyzer: undefined }
    const kind = security_analyzer === null ? undefined : analyzerKinds[security_analyzer]
    return {
      confirmation_policy: confirmationPolicy.parse({
        kind: kind === undefined ? 'AlwaysConfirm' : 'ConfirmRisky',
      }),
      security_analyzer: kind && securityAnalyzer.parse({ kind }),
    }
  }

  /**
   * Applies the diffs after `activated`, the new model of agents, and before `metaProfile`, which the request
   * names. A Problem `invalid` has the places.
   */
  async update(
    request: UpdateSettingsRequest,
    activated?: Llm,
    metaProfile?: NamedMetaProfile,
  ): Promise<void> {
    const openDiff = (name: 'agent_settings_diff' | 'conversation_settings_diff') =>
      request[name] && Object(openSealedTexts(this.#cipher, request[name], ['body', name]))
    const [agent, conversation] = [openDiff('agent_settings_diff'), openDiff('conversation_settings_diff')]
    const { misc_settings_diff: misc, active_profile, active_agent_profile_id } = request
    await this.modify((stored) => {
      const before = activated === undefined ? stored : withAgentLlm(stored, activated)
      const updated = {
        ...before,
        ...(agent === undefined ? {} : { agent_settings: patchAgentSettings(before.agent_settings, agent) }),
        ...(conversation === undefined
          ? {}
          : { conversation_settings: patchConversationSettings(before.conversation_settings, conversation) }),
        ...(misc === undefined ? {} : { misc_settings: patchMiscSettings(before.misc_settings, misc) }),
        ...(active_profile === undefined ? {} : { active_profile: active_profile ?? undefined }),
        ...(active_agent_profile_id === undefined
          ? {}
          : { active_agent_profile_id: active_agent_profile_id ?? undefined }),
      }
      return request.active_meta_profile === undefined ? updated : withMetaProfile(updated, metaProfile)
    })
  }

  /** Stores what `transform` returns for the current settings; a Problem `too_large` above the limit. */
  async modify(transform: (stored: StoredSettings) => StoredSettings): Promise<void> {
    await this.#document.update((stored) => {
      const updated = transform(stored)
      if (JSON.stringify(updated).length > maxCharacters)
        throw new Problem('too_large', 'The settings would become too large')
      return updated
    })
  }
}

/** The document of another store would be read as defaults, and lose what it has with the next change. */
function assertKnownMembers(value: unknown): void {
  const isKnown = (name: string) => Object.hasOwn(storedSettings.shape, name)
  if (!isRecord(value) || value.agent_settings === undefined || !Object.keys(value).every(isKnown))
    throw new Error('not the settings of a server')
}

/** The settings with the agents' model replaced as a whole; an agent of kind `acp` has none. */
export function withAgentLlm(stored: StoredSettings, llmSettings: Llm): StoredSettings {
  if (isAcpSettings(stored.agent_settings)) return stored
  return { ...stored, agent_settings: { ...stored.agent_settings, llm: { ...llmSettings } } }
}

/**
 * The settings whose agents choose their model by a meta-profile, or by none. A Problem `conflict` when the
 * agent is another program.
 */
export function withMetaProfile(
  stored: StoredSettings,
  active: NamedMetaProfile | undefined,
): StoredSettings {
  const { active_meta_profile, meta_profile, enable_classify_and_switch_llm_tool, ...rest } =
    stored.agent_settings
  if (active === undefined) return { ...stored, agent_settings: rest }
  if (isAcpSettings(rest)) throw new Problem('conflict', 'Agents of kind acp cannot use a meta-profile')
  const members = { active_meta_profile: active.name, meta_profile: active.config }
  const agent_settings = { ...rest, ...members, enable_classify_and_switch_llm_tool: true }
  return { ...stored, agent_settings }
}

/**
 * The agent settings after a merge patch. Another kind of agent begins from its defaults; the MCP servers are
 * those of the server and stay. A Problem `invalid` has the places of what is not valid then.
 */
function patchAgentSettings(stored: JsonObject, diff: JsonObject): Record<string, unknown> {
  const isOtherKind = 'agent_kind' in diff && isAcpSettings(diff) !== isAcpSettings(stored)
  const before: JsonObject = isOtherKind ? { mcp_config: stored.mcp_config } : stored
  const patched = patchRedacted(before, unwrapMcpConfig(diff), toAgentSettingsJson(before))
  parseOrThrow(agentSettingsSchemaOf(patched), patched, ['body', 'agent_settings_diff'], invalidText)
  return patched
}

function patchConversationSettings(stored: JsonObject, diff: JsonObject): Record<string, unknown> {
  const merged = patchRedacted(stored, diff, toConversationSettingsJson(stored))
  // Null is a value here: no analyzer. Without the member it would be the default, which asks less.
  const patched = { ...merged, ...nullMembers(diff) }
  parseOrThrow(conversationSettings, patched, ['body', 'conversation_settings_diff'], invalidText)
  return patched
}

/** Nulls in its values remove members; a null alone is stored. */
function patchMiscSettings(stored: JsonObject, diff: JsonObject): Record<string, unknown> {
  return { ...mergePatch(stored, diff), ...nullMembers(diff) }
}

function nullMembers(diff: JsonObject): Record<string, null> {
  const names = Object.keys(diff).filter((name) => diff[name] === null)
  return Object.fromEntries(names.map((name) => [name, null]))
}

/** A merge patch in which redacted values of `answered` stand for the current ones. */
function patchRedacted(stored: JsonObject, diff: JsonObject, answered: JsonObject): Record<string, unknown> {
  const patch: JsonObject = Object(restoreRedacted(diff, redactSecrets(answered, redactedText), answered))
  return mergePatch(stored, patch)
}

/** Removes the wrapper `mcpServers` of the older format, which would be merged like a server. */
function unwrapMcpConfig(diff: JsonObject): JsonObject {
  const { mcp_config: servers } = diff
  return typeof servers === 'object' && servers !== null && 'mcpServers' in servers
    ? { ...diff, mcp_config: servers.mcpServers }
    : diff
}
