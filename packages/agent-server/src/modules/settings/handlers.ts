import type { Handlers } from '@slipway/http'
import {
  agentSettingsSchema,
  conversationSettingsSchema,
  type Llm,
  type LogFunction,
  mcpServer,
  Problem,
  type SettingsSchema,
  saveSecretRequest,
  type settingsRoutes,
  toAgentSettingsJson,
  toConversationSettingsJson,
} from '@slipway/protocol'
import { redactedText } from '@slipway/shared/redaction'
import type { Cipher } from '@slipway/storage'
import type { ConversationParts, ModelSource } from '../../core/conversations/parts.ts'
import { type Exposure, exposeSecrets, parseExposure } from '../../core/secrets/expose-secrets.ts'
import { openSealedTexts, parseWithSealedTexts } from '../../core/secrets/sealed-text.ts'
import type { ServerSecrets } from '../../core/secrets/server-secrets.ts'
import { addMcpServer, patchMcpServer, removeMcpServer } from './mcp-servers.ts'
import type { ServerSettings } from './server-settings.ts'

interface SettingsDeps {
  readonly settings: ServerSettings
  readonly secrets: ServerSecrets
  /** Profiles that settings name. */
  readonly parts: Pick<ConversationParts, 'models' | 'agentProfiles' | 'metaProfiles'>
  readonly cipher: Cipher
  readonly log: LogFunction
}

/** Answers are redacted unless the header `X-Expose-Secrets` says otherwise. */
export function settingsHandlers(options: SettingsDeps): Handlers<typeof settingsRoutes> {
  const { settings, parts, cipher, log } = options
  const readSettings = async (exposure: Exposure = 'masked') => {
    const stored = await settings.read()
    const agent = await settings.getAgentSettings()
    const exposeOptions = { cipher, placeholder: redactedText }
    return {
      agent_settings: exposeSecrets(toAgentSettingsJson(stored.agent_settings), exposure, exposeOptions),
      conversation_settings: exposeSecrets(
        toConversationSettingsJson(stored.conversation_settings),
        exposure,
        exposeOptions,
      ),
      llm_api_key_is_set: await parts.models.hasKey(agent.llm),
      active_profile: (await parts.models.getActiveName()) ?? null,
      active_agent_profile_id: stored.active_agent_profile_id ?? null,
      active_meta_profile: agent.active_meta_profile,
      ...{ misc_settings: stored.misc_settings, read_only_file: settings.file },
    }
  }
  /** Built on first use: they never change. */
  const formSchemas: { agent?: SettingsSchema; conversation?: SettingsSchema } = {}
  return {
    async getSettings({ header }) {
      const exposure = parseExposure(header('x-expose-secrets'))
      if (exposure === 'plaintext') log('info', 'secrets were read', { what: 'settings' })
      return { json: await readSettings(exposure) }
    },
    async updateSettings({ body }) {
      if (Object.values(body).every((member) => member === undefined))
        throw new Problem('bad_request', 'The body changes nothing')
      const { active_agent_profile_id: id, active_meta_profile: metaName } = body
      const metaProfile =
        typeof metaName === 'string' ? await parts.metaProfiles.getOrThrow(metaName) : undefined
      if (id !== undefined && id !== null && !(await parts.agentProfiles.has(id)))
        throw new Problem('not_found', `Agent profile not found: ${id}`)
      await settings.update(body, await activatedLlm(parts.models, body), metaProfile)
      return { json: await readSettings() }
    },
    getAgentSettingsSchema() {
      formSchemas.agent ??= agentSettingsSchema()
      return { json: formSchemas.agent }
    },
    getConversationSettingsSchema() {
      formSchemas.conversation ??= conversationSettingsSchema()
      return { json: formSchemas.conversation }
    },
    async createMcpServer({ params, body }) {
      await addMcpServer(
        settings,
        params.settings_key,
        parseWithSealedTexts(cipher, mcpServer, body, ['body']),
      )
      return { status: 201, json: await readSettings() }
    },
    async updateMcpServer({ params, body }) {
      await patchMcpServer(settings, params.settings_key, Object(openSealedTexts(cipher, body, ['body'])))
      return { json: await readSettings() }
    },
    async deleteMcpServer({ params }) {
      await removeMcpServer(settings, params.settings_key)
      return { json: await readSettings() }
    },
    ...secretHandlers(options),
  }
}

function secretHandlers({ secrets, parts, cipher, log }: SettingsDeps) {
  return {
    async listSecrets({ query: { agent_profile_id: id } }) {
      const profile = id === undefined ? undefined : await parts.agentProfiles.getById(id)
      if (id !== undefined && profile === undefined) throw new Problem('not_found', 'Agent profile not found')
      const names = profile?.secret_refs ?? undefined
      const all = await secrets.list()
      return { json: { secrets: all.filter(({ name }) => names === undefined || names.includes(name)) } }
    },
    async saveSecret({ body }) {
      const { name, value, description } = parseWithSealedTexts(cipher, saveSecretRequest, body, ['body'])
      await secrets.save(name, { value, description })
      return { json: { name, description: description ?? null } }
    },
    async getSecretValue({ params: { name } }) {
      const value = await secrets.getValue(name)
      if (value === undefined) throw secretNotFound()
      log('info', 'secrets were read', { what: 'secret', name })
      return { bytes: Buffer.from(value), contentType: 'text/plain; charset=utf-8' }
    },
    async deleteSecret({ params: { name } }) {
      if (!(await secrets.remove(name))) throw secretNotFound()
      return { json: { deleted: true } }
    },
  } satisfies Partial<Handlers<typeof settingsRoutes>>
}

/** The model of a profile that the request activates, unless the request sets a model itself. */
async function activatedLlm(
  models: ModelSource,
  body: {
    readonly active_profile?: string | null | undefined
    readonly agent_settings_diff?: object | undefined
  },
): Promise<Llm | undefined> {
  const { active_profile: name, agent_settings_diff: diff = {} } = body
  if (name === undefined || name === null) return undefined
  const model = 'llm' in diff ? await models.get(name) : await models.resolve(name)
  if (model === undefined) throw new Problem('not_found', `Profile '${name}' not found`)
  return 'llm' in diff ? undefined : model
}

function secretNotFound(): Problem {
  return new Problem('not_found', 'Secret not found')
}
