import type { Handlers } from '@slipway/http'
import { type agentProfileRoutes, Problem } from '@slipway/protocol'
import type { AgentProfiles } from '../../profiles/agent-profiles.ts'

/** Profiles have no secrets; their references are answered redacted. */
export function agentProfileHandlers(options: {
  readonly profiles: AgentProfiles
}): Handlers<typeof agentProfileRoutes> {
  const { profiles: agentProfiles } = options
  return {
    async listAgentProfiles() {
      const list = await agentProfiles.list()
      return {
        json: { profiles: list, active_agent_profile_id: (await agentProfiles.getActiveId()) ?? null },
      }
    },
    async getAgentProfile({ params: { name } }) {
      const profile = await agentProfiles.get(name)
      if (profile === undefined) throw new Problem('not_found', `Agent profile not found: ${name}`)
      return { json: { name, profile } }
    },
    async saveAgentProfile({ params: { name }, body }) {
      await agentProfiles.save(name, body)
      return { status: 201, json: { name, message: 'The agent profile is saved.' } }
    },
    async deleteAgentProfile({ params: { name } }) {
      const isDeleted = await agentProfiles.remove(name)
      return { json: { name, message: isDeleted ? 'The agent profile is deleted.' : 'There was none.' } }
    },
    async renameAgentProfile({ params: { name }, body: { new_name } }) {
      await agentProfiles.rename(name, new_name)
      return { json: { name: new_name, message: 'The agent profile is renamed.' } }
    },
    async activateAgentProfile({ params: { profile_id } }) {
      await agentProfiles.activate(profile_id)
      const message = 'The agent profile is active.'
      return { json: { id: profile_id, message, agent_settings_applied: false } }
    },
    async materializeAgentProfile({ params: { name }, signal }) {
      return { json: await agentProfiles.diagnose(name, signal) }
    },
  }
}
