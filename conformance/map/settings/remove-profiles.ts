import type { MapClient } from '../map-server.ts'

/** Removes the profiles of cases and all connections, and what the settings say of them. */
export async function removeProfiles(map: MapClient): Promise<void> {
  await map.request('PATCH', '/api/settings', {
    body: { active_profile: null, agent_settings_diff: { llm: { provider_connection_id: null } } },
  })
  for (const path of ['/api/agent-profiles', '/api/profiles']) {
    const { profiles } = await map.requestOrThrow<{ profiles: readonly { name: string }[] }>('GET', path)
    for (const { name } of profiles)
      if (/^m(ap-|m)/.test(name)) await map.request('DELETE', `${path}/${name}`)
  }
  const connections = '/api/llm/provider-connections'
  for (const { id } of await map.requestOrThrow<{ id: string }[]>('GET', connections))
    await map.request('DELETE', `${connections}/${id}`)
}
