import { type Client, ConnectionError } from '@slipway/client'
import { readJson } from '@slipway/shared/async'
import { isRecord } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import type { SelectedModel } from './agent-request.ts'

/** The profile in which the server keeps the model that a session has asked for, its key sealed. */
export const savedModelProfile = 'session'

/** The saved model; undefined when there is none. */
export async function readSavedModel(
  client: Client,
  signal: AbortSignal,
): Promise<SelectedModel | undefined> {
  const headers = { 'X-Expose-Secrets': 'plaintext' }
  const params = { name: savedModelProfile }
  const response = await client.open('getProfile', { params, headers, signal }).catch((error: unknown) => {
    if (error instanceof ConnectionError) throw error
    return undefined
  })
  const profile = response && (await readJson(response))
  const settings = isRecord(profile) ? profile.config : undefined
  if (!isRecord(settings) || typeof settings.model !== 'string') return undefined
  const { base_url, api_key } = settings
  return {
    name: settings.model,
    baseUrl: typeof base_url === 'string' ? base_url : undefined,
    apiKey: typeof api_key === 'string' ? new Secret(api_key) : undefined,
  }
}
