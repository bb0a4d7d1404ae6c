import { join } from 'node:path'
import {
  type AgentSettings,
  agentSettings,
  type ConversationSettings,
  conversationSettings,
  type KeptSettings,
  type Llm,
  llm,
  Problem,
  settings,
  type UpdateSettingsRequest,
  validated,
} from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import { KeptFile } from '../documents/json-file.ts'
import { mask, masked } from '../secrets/expose-secrets.ts'
import { openTexts } from '../secrets/sealed-text.ts'
import { mergePatch, unmasked } from './merge-patch.ts'

type Json = Readonly<Record<string, unknown>>

/** Settings that grew beyond this are refused: they are in memory, and sent as a whole. */
const maxCharacters = 4_000_000

/**
 * The settings of the server's user: one sealed file, in which only what was set stands. A change happens as a whole or not at all,
 * and is on the disk when its promise resolves. What is damaged or was sealed with another key is a Problem `conflict`.
 */
export class ServerSettings {
  readonly #file: KeptFile<KeptSettings>
  readonly #cipher: Cipher

  constructor({ directory, cipher }: { readonly directory: string; readonly cipher: Cipher }) {
    this.#cipher = cipher
    this.#file = new KeptFile({
      path: join(directory, 'settings.sealed'),
      empty: settings.parse({}),
      parse: (value) => {
        const kept = settings.parse(value)
        agentSettings.parse(kept.agent_settings)
        conversationSettings.parse(kept.conversation_settings)
        return kept
      },
      cipher,
    })
  }

  /** With secrets in clear. */
  async read(): Promise<KeptSettings> {
    return await this.#file.read()
  }

  /** The settings of agents with secrets in clear and defaults filled in. */
  async agent(): Promise<AgentSettings> {
    return agentSettings.parse((await this.read()).agent_settings)
  }

  /** Problems: `invalid` with the places of what is not valid, sealed with another key included. */
  async update(request: UpdateSettingsRequest, activated?: Llm): Promise<void> {
    const open = (name: 'agent_settings_diff' | 'conversation_settings_diff') =>
      openedDiff(this.#cipher, request[name], ['body', name])
    const [agent, conversation] = [open('agent_settings_diff'), open('conversation_settings_diff')]
    const { misc_settings_diff: misc, active_profile, active_agent_profile_id } = request
    await this.change((kept) => {
      const before = activated === undefined ? kept : withModel(kept, activated)
      return {
        ...before,
        ...(agent === undefined ? {} : { agent_settings: patchedAgent(before.agent_settings, agent) }),
        ...(conversation === undefined
          ? {}
          : { conversation_settings: patchedConversation(before.conversation_settings, conversation) }),
        ...(misc === undefined ? {} : { misc_settings: merged(before.misc_settings, misc) }),
        ...(active_profile === undefined ? {} : { active_profile: active_profile ?? undefined }),
        ...(active_agent_profile_id === undefined
          ? {}
          : { active_agent_profile_id: active_agent_profile_id ?? undefined }),
      }
    })
  }

  /** Writes what `work` makes of what is kept; a Problem `too_large` when that is too much. */
  async change(work: (kept: KeptSettings) => KeptSettings): Promise<void> {
    await this.#file.change((kept) => {
      const next = work(kept)
      if (JSON.stringify(next).length > maxCharacters)
        throw new Problem('too_large', 'The settings would become too large')
      return next
    })
  }
}

/** With another model for agents, of which nothing stays. */
export function withModel(kept: KeptSettings, model: Llm): KeptSettings {
  return { ...kept, agent_settings: { ...kept.agent_settings, llm: { ...model } } }
}

/** What a merge patch makes of the settings of agents; a Problem `invalid` names the places of what is not valid then. */
export function patchedAgent(kept: Json, diff: Json): Record<string, unknown> {
  const full = agentJson(kept)
  const patch = unmasked(unwrapped(diff), masked(full, mask), full)
  return valid(agentSettings, merged(kept, patch), 'agent_settings_diff')
}

function patchedConversation(kept: Json, diff: Json): Record<string, unknown> {
  const full = conversationJson(kept)
  const patch = unmasked(diff, masked(full, mask), full)
  return valid(conversationSettings, merged(kept, patch), 'conversation_settings_diff')
}

function valid(
  schema: typeof agentSettings | typeof conversationSettings,
  value: Record<string, unknown>,
  place: string,
): Record<string, unknown> {
  validated<unknown>(schema, value, ['body', place], 'Settings validation failed')
  return value
}

function openedDiff(cipher: Cipher, diff: Json | undefined, place: string[]): Json | undefined {
  return diff === undefined ? undefined : Object(openTexts(cipher, diff, place))
}

function merged(kept: Json, patch: unknown): Record<string, unknown> {
  return mergePatch(kept, patch) as Record<string, unknown> // the patch is a map, so this is one
}

/** The older form of MCP settings has one more wrapper, which would be merged as if it were a server. */
function unwrapped(diff: Json): Json {
  const { mcp_config: servers } = diff
  return typeof servers === 'object' && servers !== null && 'mcpServers' in servers
    ? { ...diff, mcp_config: servers.mcpServers }
    : diff
}

/** The settings of agents as they are answered, secrets in clear: every member is there, null where it has no value. */
export function agentJson(kept: Json): Record<string, unknown> {
  const {
    llm: model,
    agent_context: context,
    verification,
    ...rest
  }: AgentSettings = agentSettings.parse(kept)
  const { critic_api_key = null } = verification
  return plain({
    ...rest,
    agent_context: { ...noSuffixes, ...plain(context) },
    llm: { ...noModel, ...plain(model) },
    verification: { ...verification, critic_api_key },
  })
}

const noSuffixes = { system_message_suffix: null, user_message_suffix: null }
const noModel = Object.fromEntries(Object.keys(llm.shape).map((name) => [name, null]))

export function conversationJson(kept: Json): Record<string, unknown> {
  const parsed: ConversationSettings = conversationSettings.parse(kept)
  return plain(parsed)
}

/** Without members that are undefined, at any depth. */
function plain(value: object): Record<string, unknown> {
  return JSON.parse(JSON.stringify(value))
}
