import {
  agentSettingsSchemaOf,
  type Llm,
  Problem,
  toAgentSettingsJson,
  toConversationSettingsJson,
  type UserSettings,
  userSettings,
  type ValidationIssue,
} from '@slipway/protocol'
import { isRecord, mergePatch, restoreRedacted, withoutMember } from '@slipway/shared/json'
import { redact, redactedText } from '@slipway/shared/redaction'
import type { JsonDocument } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** The settings of each user. Only the members that were set are stored. */
export class UserSettingsStore {
  readonly #document: JsonDocument<JsonObject>

  constructor(deps: AccountDocuments) {
    this.#document = userDocument<JsonObject>(deps, 'settings', {
      empty: {},
      parse: parseStored,
    })
  }

  /** With secrets in clear and defaults filled in. */
  async read(owner: string | null): Promise<UserSettings> {
    return userSettings.parse(await this.#document.read(owner ?? ''))
  }

  /** Merges the `_diff` members (null deletes), replaces the others. A Problem `invalid` changes nothing. */
  async update(owner: string | null, change: JsonObject): Promise<void> {
    const {
      agent_settings_diff: agent,
      conversation_settings_diff: conversation,
      // Members that only answers have.
      llm_api_key_set: _,
      search_api_key_set: __,
      id: ___,
      ...others
    } = change
    await this.#document.update((stored) => {
      const updated: JsonObject = {
        ...stored,
        ...restoreShown(others, stored),
        ...(agent !== undefined && {
          agent_settings: patchAgentSettings(stored.agent_settings, agent),
        }),
        ...(conversation !== undefined && {
          conversation_settings: mergePatch(stored.conversation_settings, conversation),
        }),
      }
      assertValid(updated)
      return updated
    }, owner ?? '')
  }

  async setLlm(owner: string | null, llm: Llm): Promise<void> {
    await this.#document.update((stored) => {
      const agent = isRecord(stored.agent_settings) ? stored.agent_settings : {}
      return { ...stored, agent_settings: { ...agent, llm } }
    }, owner ?? '')
  }
}

/**
 * The settings as answered, secrets in clear: every member is present, with its default or null. Those that
 * an earlier version stored and that are not valid are as they were stored.
 */
export function toUserSettingsJson(settings: UserSettings): Record<string, unknown> {
  const { agent_settings: agent, conversation_settings: conversation } = settings
  return {
    ...settings,
    agent_settings: showAgentSettings(agent),
    conversation_settings: toConversationSettingsJson(conversation),
  }
}

function showAgentSettings(stored: JsonObject): JsonObject {
  return agentSettingsSchemaOf(stored).safeParse(stored).success ? toAgentSettingsJson(stored) : stored
}

/** Marketplaces were stored unchecked once. */
function parseStored(value: unknown): JsonObject {
  if (!isRecord(value)) return {}
  const { registered_marketplaces: marketplaces } = userSettings.shape
  return marketplaces.safeParse(value.registered_marketplaces).success
    ? value
    : withoutMember(value, 'registered_marketplaces')
}

function patchAgentSettings(stored: unknown, diff: unknown): unknown {
  const restored = restoreShown(diff, showAgentSettings(isRecord(stored) ? stored : {}))
  return mergePatch(stored, withoutEmptyTexts(restored))
}

/** A change in which what answers hide stands for the stored values. */
function restoreShown<T>(change: T, stored: JsonObject): T {
  return restoreRedacted(change, redact(stored, redactedText), stored) as T // texts are left out, and nothing else
}

/** A form sends an empty text for each member of the model that its user did not fill in. */
function withoutEmptyTexts(diff: unknown): unknown {
  if (!isRecord(diff) || !isRecord(diff.llm)) return diff
  const members = Object.entries(diff.llm).filter(([, value]) => value !== '')
  return { ...diff, llm: Object.fromEntries(members) }
}

function assertValid(settings: JsonObject): void {
  const checked = userSettings.safeParse(settings)
  const agent = isRecord(settings.agent_settings) ? settings.agent_settings : {}
  const issues = [
    ...(checked.error?.issues ?? []).map(({ path, message }) => toIssue(path, message)),
    ...(checked.success ? (agentSettingsSchemaOf(agent).safeParse(agent).error?.issues ?? []) : []).map(
      ({ path, message }) => toIssue(['agent_settings', ...path], message),
    ),
  ]
  if (issues.length > 0) throw new Problem('invalid', 'The settings are not valid', issues)
}

function toIssue(path: readonly PropertyKey[], msg: string): ValidationIssue {
  const loc = ['body', ...path.map((part) => (typeof part === 'number' ? part : String(part)))]
  return { loc, msg, type: 'value_error' }
}
