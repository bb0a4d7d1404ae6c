import { createServer } from 'node:net'
import type { Finding } from '@slipway/agent-server/maintenance'
import { RedirectError, sameOriginFetch } from '@slipway/shared/url'
import type { ModelConfig } from '../context/config.ts'
import type { SavedModel } from './saved-model.ts'

const modelTimeoutMs = 10_000
const defaultPorts = [
  [8000, 'slipway serve'],
  [3000, 'slipway sandbox-server'],
] as const

/** Whether the default ports are free. One that is in use may be that of a running server. */
export async function examinePorts(
  ports: readonly (readonly [number, string])[] = defaultPorts,
): Promise<Finding[]> {
  const area = 'ports'
  return await Promise.all(
    ports.map(async ([port, command]): Promise<Finding> => {
      if (await isFree(port)) return { area, level: 'ok', message: `${port} is free` }
      const next = `If no Slipway server runs there: ${command} --port NUMBER`
      return { area, level: 'warning', message: `${port} is in use`, next }
    }),
  )
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const { promise, resolve } = Promise.withResolvers<boolean>()
  server.once('error', () => resolve(false))
  server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  return await promise
}

/**
 * Whether the server of the model answers. Only one with its own address is asked, for its list of
 * models: that costs nothing.
 */
export async function examineModel(model: ModelConfig | SavedModel): Promise<Finding[]> {
  const { name, baseUrl, apiKey } = model
  const isSaved = 'isKeySealed' in model
  const area = 'model'
  const error = (message: string, next: string): Finding[] => [{ area, level: 'error', message, next }]
  if (name === undefined)
    return [
      {
        ...{ area, level: 'warning', message: 'no model is configured' },
        next: 'slipway config set model.name PROVIDER/NAME, or LLM_MODEL; "slipway" in a terminal asks for one.',
      },
    ]
  const label = isSaved ? `${name}, saved by a session` : name
  if (baseUrl === undefined) return [{ area, level: 'ok', message: `${label} (its provider was not asked)` }]
  if (URL.parse(baseUrl)?.protocol.startsWith('http') !== true)
    return error(
      'LLM_BASE_URL, or model.base_url of config.toml, is no address',
      'Correct it: http://HOST:PORT/v1',
    )
  try {
    const response = await sameOriginFetch()(`${baseUrl.replace(/\/+$/, '')}/models`, {
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey.reveal()}` },
      signal: AbortSignal.timeout(modelTimeoutMs),
    })
    await response.body?.cancel()
    const isRefused = response.status === 401 || response.status === 403
    if (isRefused && !(isSaved && model.isKeySealed))
      return error(
        `the server of ${name} refuses the key (${response.status})`,
        isSaved ? 'Choose it again with /model in a session.' : 'Correct LLM_API_KEY, or model.api_key.',
      )
    // Many servers have no such list; an answer shows that they are there.
    return [{ area, level: 'ok', message: `${label}: its server answers` }]
  } catch (failure) {
    if (failure instanceof RedirectError)
      return error(`the server of ${label} was not asked: ${failure.message}`, 'Correct the address.')
    const next = isSaved
      ? 'Start it, or choose another model with /model in a session.'
      : 'Start it, or correct LLM_BASE_URL or model.base_url.'
    return error(`the server of ${label} does not answer`, next)
  }
}
