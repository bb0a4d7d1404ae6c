import { readStoredDocument } from '@slipway/agent-server/maintenance'
import { Client } from '@slipway/client'
import { asRecord, parseJson } from '@slipway/shared/json'
import { userDataDirectory } from '@slipway/shared/process'
import type { ModelConfig } from '../context/config.ts'
import { findPrivateServer } from '../context/private-server.ts'
import { readSavedModel, savedModelProfile } from '../conversation/saved-model.ts'

/** A model that a session has saved. */
export interface SavedModel extends ModelConfig {
  /** It has a key, which only its server can open, and that does not run. */
  readonly isKeySealed: boolean
}

const serverTimeoutMs = 5_000

/**
 * The model that the private server has for runs that name none; without its key when no server
 * runs.
 */
export async function findSavedModel(
  env: Readonly<Record<string, string | undefined>>,
): Promise<SavedModel | undefined> {
  const server = await findPrivateServer(env)
  const client = server && new Client({ url: server.url, sessionApiKey: server.key })
  const signal = AbortSignal.timeout(serverTimeoutMs)
  const opened = client && (await readSavedModel(client, signal).catch(() => undefined))
  if (opened !== undefined) return { ...opened, isKeySealed: false }
  const stored = readProfile(userDataDirectory(env))
  const { model, base_url, api_key } = asRecord(asRecord(parseJson(String(stored))).llm)
  if (typeof model !== 'string') return undefined
  const baseUrl = typeof base_url === 'string' ? base_url : undefined
  return { name: model, baseUrl, apiKey: undefined, isKeySealed: api_key !== undefined && api_key !== null }
}

/** What cannot be read is a finding of the database's own examination. */
function readProfile(directory: string): Buffer | undefined {
  try {
    return readStoredDocument(directory, `profiles/${savedModelProfile}.json`)
  } catch {
    return undefined
  }
}
