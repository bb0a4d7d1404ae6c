import { join } from 'node:path'
import {
  type AgentSettings,
  agentSettings,
  type ConversationSettings,
  conversationSettings,
  type Llm,
  llm,
  Problem,
  parseOrThrow,
  type StoredSettings,
  storedSettings,
  type UpdateSettingsRequest,
} from '@slipway/protocol'
import { mergePatch, restoreRedacted } from '@slipway/shared/json'
import type { Cipher, JsonDocument } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'
import { redactedText, redactSecrets } from '../secrets/expose-secrets.ts'
import { openSealedTexts } from '../secrets/sealed-text.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** Settings that grew beyond this are refused: they are in memory, and sent as a whole. */
const maxCharacters = 4_000_000

/**
 * The settings of the server's user: one sealed file, in which only what was set stands. A change happens as a whole or not at all,
 * and is on the disk when its promise resolves. What is damaged or was sealed with another key is a Problem `conflict`.
 */
export class ServerSettings {
  readonly #file: JsonDocument<StoredSettings>
  readonly #cipher: Cipher

  constructor({ directory, cipher }: { readonly directory: string; readonly cipher: Cipher }) {
    this.#cipher = cipher
    this.#file = openJsonFile({
      path: join(directory, 'settings.sealed'),
      empty: storedSettings.parse({}),
      parse: (value) => {
        const stored = storedSettings.parse(value)
        agentSettings.parse(stored.agent_settings)
        conversationSettings.parse(stored.conversation_settings)
        return stored
      },
      cipher,
    })
  }

  /** With secrets in clear. */
  async read(): Promise<StoredSettings> {
    return await this.#file.read()
  }

  /** The settings of agents with secrets in clear and defaults filled in. */
  async getAgentSettings(): Promise<AgentSettings> {
    return agentSettings.parse((await this.read()).agent_settings)
  }

  /** Problems: `invalid` with the places of what is not valid, sealed with another key included. */
  async update(request: UpdateSettingsRequest, activated?: Llm): Promise<void> {
    const openDiff = (name: 'agent_settings_diff' | 'conversation_settings_diff') =>
      unsealDiff(this.#cipher, request[name], ['body', name])
    const [agent, conversation] = [openDiff('agent_settings_diff'), openDiff('conversation_settings_diff')]
    const { misc_settings_diff: misc, active_profile, active_agent_profile_id } = request
    await this.modify((stored) => {
      const before = activated === undefined ? stored : withAgentLlm(stored, activated)
      return {
        ...before,
        ...(agent === undefined ? {} : { agent_settings: patchAgentSettings(before.agent_settings, agent) }),
        ...(conversation === undefined
          ? {}
          : { conversation_settings: patchConversationSettings(before.conversation_settings, conversation) }),
        ...(misc === undefined ? {} : { misc_settings: mergeObjects(before.misc_settings, misc) }),
        ...(active_profile === undefined ? {} : { active_profile: active_profile ?? undefined }),
        ...(active_agent_profile_id === undefined
          ? {}
          : { active_agent_profile_id: active_agent_profile_id ?? undefined }),
      }
    })
  }

  /** Writes what `work` makes of what is kept; a Problem `too_large` when that is too much. */
  async modify(transform: (stored: StoredSettings) => StoredSettings): Promise<void> {
    await this.#file.update((stored) => {
      const updated = transform(stored)
      if (JSON.stringify(updated).length > maxCharacters)
        throw new Problem('too_large', 'The settings would become too large')
      return updated
    })
  }
}

/** With another model for agents, of which nothing stays. */
export function withAgentLlm(stored: StoredSettings, llmSettings: Llm): StoredSettings {
  return { ...stored, agent_settings: { ...stored.agent_settings, llm: { ...llmSettings } } }
}

/** What a merge patch makes of the settings of agents; a Problem `invalid` names the places of what is not valid then. */
export function patchAgentSettings(stored: JsonObject, diff: JsonObject): Record<string, unknown> {
  const full = toAgentSettingsJson(stored)
  const patch = restoreRedacted(unwrapMcpConfig(diff), redactSecrets(full, redactedText), full)
  return assertValid(agentSettings, mergeObjects(stored, patch), 'agent_settings_diff')
}

function patchConversationSettings(stored: JsonObject, diff: JsonObject): Record<string, unknown> {
  const full = toConversationSettingsJson(stored)
  const patch = restoreRedacted(diff, redactSecrets(full, redactedText), full)
  return assertValid(conversationSettings, mergeObjects(stored, patch), 'conversation_settings_diff')
}

function assertValid(
  schema: typeof agentSettings | typeof conversationSettings,
  value: Record<string, unknown>,
  place: string,
): Record<string, unknown> {
  parseOrThrow<unknown>(schema, value, ['body', place], 'Settings validation failed')
  return value
}

function unsealDiff(cipher: Cipher, diff: JsonObject | undefined, place: string[]): JsonObject | undefined {
  return diff === undefined ? undefined : Object(openSealedTexts(cipher, diff, place))
}

function mergeObjects(stored: JsonObject, patch: unknown): Record<string, unknown> {
  return mergePatch(stored, patch) as Record<string, unknown> // the patch is an object
}

/** The older form of MCP settings has one more wrapper, which would be merged as if it were a server. */
function unwrapMcpConfig(diff: JsonObject): JsonObject {
  const { mcp_config: servers } = diff
  return typeof servers === 'object' && servers !== null && 'mcpServers' in servers
    ? { ...diff, mcp_config: servers.mcpServers }
    : diff
}

/** The settings of agents as they are answered, secrets in clear: every member is there, null where it has no value. */
export function toAgentSettingsJson(stored: JsonObject): Record<string, unknown> {
  const {
    llm: model,
    agent_context: context,
    verification,
    ...rest
  }: AgentSettings = agentSettings.parse(stored)
  const { critic_api_key = null } = verification
  return jsonCopy({
    ...rest,
    agent_context: { ...nullSuffixes, ...jsonCopy(context) },
    llm: { ...nullLlm, ...jsonCopy(model) },
    verification: { ...verification, critic_api_key },
  })
}

const nullSuffixes = { system_message_suffix: null, user_message_suffix: null }
const nullLlm = Object.fromEntries(Object.keys(llm.shape).map((name) => [name, null]))

export function toConversationSettingsJson(stored: JsonObject): Record<string, unknown> {
  const parsed: ConversationSettings = conversationSettings.parse(stored)
  return jsonCopy(parsed)
}

/** Without members that are undefined, at any depth. */
function jsonCopy(value: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(value))
}
