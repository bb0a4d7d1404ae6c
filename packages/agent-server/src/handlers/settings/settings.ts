import type { Handlers } from '@slipway/http'
import {
  agentSettingsSchema,
  conversationSettingsSchema,
  type Llm,
  type Log,
  mcpServer,
  Problem,
  type SettingsSchema,
  saveSecretRequest,
  type settingsRoutes,
} from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'
import type { AgentProfiles } from '../../profiles/agent-profiles.ts'
import type { Profiles } from '../../profiles/llm-profiles.ts'
import { type Exposure, exposed, exposureOf, mask } from '../../secrets/expose-secrets.ts'
import { openTexts, withOpened } from '../../secrets/sealed-text.ts'
import type { ServerSecrets } from '../../secrets/server-secrets.ts'
import { addMcpServer, changeMcpServer, removeMcpServer } from '../../settings/mcp-servers.ts'
import { agentJson, conversationJson, type ServerSettings } from '../../settings/server-settings.ts'

/** Answers hold no secret unless its header asks for it. */
export function settingsHandlers(options: {
  readonly settings: ServerSettings
  readonly secrets: ServerSecrets
  readonly profiles: Profiles
  readonly agentProfiles: Pick<AgentProfiles, 'has'>
  readonly cipher: Cipher
  readonly log: Log
  /** Called by what changes something. */
  readonly touch: () => void
}): Handlers<typeof settingsRoutes> {
  const { settings, secrets, profiles, agentProfiles, cipher, log, touch } = options
  const shown = async (exposure: Exposure = 'masked') => {
    const kept = await settings.read()
    const agent = await settings.agent()
    const look = { cipher, stars: mask }
    return {
      agent_settings: exposed(agentJson(kept.agent_settings), exposure, look),
      conversation_settings: exposed(conversationJson(kept.conversation_settings), exposure, look),
      llm_api_key_is_set: await profiles.hasKey(agent.llm),
      active_profile: (await profiles.active()) ?? null,
      active_agent_profile_id: kept.active_agent_profile_id ?? null,
      misc_settings: kept.misc_settings,
    }
  }
  /** The forms cost something to make and never change. */
  const forms: { agent?: SettingsSchema; conversation?: SettingsSchema } = {}
  return {
    async getSettings({ header }) {
      const exposure = exposureOf(header('x-expose-secrets'))
      if (exposure === 'plaintext') log('info', 'secrets were read', { what: 'settings' })
      return { json: await shown(exposure) }
    },
    async updateSettings({ body }) {
      touch()
      if (Object.values(body).every((member) => member === undefined))
        throw new Problem('bad_request', 'Nothing was given to be changed')
      const { active_agent_profile_id: id } = body
      if (id !== undefined && id !== null && !(await agentProfiles.has(id)))
        throw new Problem('not_found', `Agent profile not found: ${id}`)
      await settings.update(body, await activated(profiles, body))
      return { json: await shown() }
    },
    getAgentSettingsSchema() {
      forms.agent ??= agentSettingsSchema()
      return { json: forms.agent }
    },
    getConversationSettingsSchema() {
      forms.conversation ??= conversationSettingsSchema()
      return { json: forms.conversation }
    },
    async createMcpServer({ params, body }) {
      touch()
      await addMcpServer(settings, params.settings_key, withOpened(cipher, mcpServer, body, ['body']))
      return { status: 201, json: await shown() }
    },
    async updateMcpServer({ params, body }) {
      touch()
      await changeMcpServer(settings, params.settings_key, Object(openTexts(cipher, body, ['body'])))
      return { json: await shown() }
    },
    async deleteMcpServer({ params }) {
      touch()
      await removeMcpServer(settings, params.settings_key)
      return { json: await shown() }
    },
    async listSecrets() {
      return { json: { secrets: await secrets.list() } }
    },
    async saveSecret({ body }) {
      touch()
      const { name, value, description } = withOpened(cipher, saveSecretRequest, body, ['body'])
      await secrets.save(name, { value, description })
      return { json: { name, description: description ?? null } }
    },
    async getSecretValue({ params: { name } }) {
      const value = await secrets.value(name)
      if (value === undefined) throw missing(name)
      log('info', 'secrets were read', { what: 'secret', name })
      return { bytes: Buffer.from(value), contentType: 'text/plain; charset=utf-8' }
    },
    async deleteSecret({ params: { name } }) {
      touch()
      if (!(await secrets.remove(name))) throw missing(name)
      return { json: { deleted: true } }
    },
  }
}

/** The model that a profile brings into the settings when it is made the active one and no other model is given. */
async function activated(
  profiles: Profiles,
  body: {
    readonly active_profile?: string | null | undefined
    readonly agent_settings_diff?: object | undefined
  },
): Promise<Llm | undefined> {
  const { active_profile: name, agent_settings_diff: diff = {} } = body
  if (name === undefined || name === null) return undefined
  const model = await profiles.get(name)
  if (model === undefined) throw new Problem('not_found', `Profile not found: ${name}`)
  return 'llm' in diff ? undefined : model
}

function missing(name: string): Problem {
  return new Problem('not_found', `Secret not found: ${name}`)
}
