import { type Llm, Problem, type UserSettings, userSettings } from '@slipway/protocol'
import { isRecord, mergePatch } from '@slipway/shared/json'
import type { JsonDocument } from '@slipway/storage'
import { type AccountDocuments, userDocument } from './user-documents.ts'

type JsonObject = Readonly<Record<string, unknown>>

/** The settings of each user. Only the members that were set are stored. */
export class UserSettingsStore {
  readonly #document: JsonDocument<JsonObject>

  constructor(deps: AccountDocuments) {
    this.#document = userDocument<JsonObject>(deps, 'settings', {
      empty: {},
      parse: (value) => (isRecord(value) ? value : {}),
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
      ...members
    } = change
    await this.#document.update((stored) => {
      const updated: JsonObject = {
        ...stored,
        ...members,
        ...(agent !== undefined && {
          agent_settings: mergePatch(stored.agent_settings, withoutPlaceholders(agent)),
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

/** Members of the model that are empty or only stars stand for a redacted value: they change nothing. */
function withoutPlaceholders(diff: unknown): unknown {
  if (!isRecord(diff) || !isRecord(diff.llm)) return diff
  const members = Object.entries(diff.llm)
  const isPlaceholder = (value: unknown) => typeof value === 'string' && /^\**$/.test(value)
  return { ...diff, llm: Object.fromEntries(members.filter(([, value]) => !isPlaceholder(value))) }
}

function assertValid(settings: JsonObject): void {
  const checked = userSettings.safeParse(settings)
  if (checked.success) return
  const issues = checked.error.issues.map(({ path, message }) => ({
    loc: ['body', ...path.map((part) => (typeof part === 'number' ? part : String(part)))],
    msg: message,
    type: 'value_error',
  }))
  throw new Problem('invalid', 'The settings are not valid', issues)
}
