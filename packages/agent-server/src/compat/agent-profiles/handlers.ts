import type { Handlers } from '@slipway/http'
import { type agentProfileRoutes, Problem } from '@slipway/protocol'
import type { AgentProfiles } from './agent-profiles.ts'

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
      if (profile === undefined) throw new Problem('not_found', `Agent profile '${name}' not found`)
      return { json: { name, profile } }
    },
    async saveAgentProfile({ params: { name }, body }) {
      await agentProfiles.save(name, body)
      return { status: 201, json: { name, message: `Agent profile '${name}' saved` } }
    },
    async deleteAgentProfile({ params: { name } }) {
      await agentProfiles.remove(name)
      return { json: { name, message: `Agent profile '${name}' deleted` } }
    },
    async renameAgentProfile({ params: { name }, body: { new_name } }) {
      await agentProfiles.rename(name, new_name)
      const done = name === new_name ? 'unchanged (same name)' : `renamed to '${new_name}'`
      return { json: { name: new_name, message: `Agent profile '${name}' ${done}` } }
    },
    async activateAgentProfile({ params: { profile_id } }) {
      await agentProfiles.activate(profile_id)
      const message = `Agent profile '${profile_id}' activated`
      return { json: { id: profile_id, message, agent_settings_applied: false } }
    },
    async materializeAgentProfile({ params: { name }, body: { profile }, signal }) {
      return { json: await agentProfiles.diagnose(name, signal, profile) }
    },
  }
}
