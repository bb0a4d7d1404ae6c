import { readSettings, type SettingValues } from '@slipway/protocol/settings'
import { dropEmptySettings } from '@slipway/shared/process'
import { Secret } from '@slipway/shared/redaction'
import { type ConfigFile, withFileSettings } from './config-file.ts'
import { commandSettings, modelSettings } from './settings.ts'

/** A model and how to reach it; each member may be missing. */
export interface ModelConfig {
  /** `provider/name`. */
  readonly name: string | undefined
  readonly baseUrl: string | undefined
  readonly apiKey: Secret | undefined
}

type Env = Record<string, string | undefined>

export interface Config {
  /** Where the server is, unless `--url` says otherwise. */
  readonly url: string
  /** Sent as `X-Session-API-Key`; of a list, as a server takes it, the first. */
  readonly sessionApiKey: Secret | undefined
  /** Data directory of the agent server that a setting names; its session key is there. */
  readonly dataDirectory: string | undefined
  /** Where the sandbox server is, unless `--url` says otherwise. */
  readonly sandboxUrl: string
  /** Sent to the sandbox server as `Authorization: Bearer`; of a list, as a server takes it, the first. */
  readonly apiKey: Secret | undefined
  /** The keys of the servers of `config.toml`, for addresses of this machine only. */
  readonly fileKeys: { readonly agent: Secret | undefined; readonly sandbox: Secret | undefined }
  /** The model that agents are run with, unless the flags say otherwise; see `selectModel`. */
  readonly model: ModelConfig
  /** What the environment says to commands. */
  readonly own: SettingValues<typeof commandSettings>
  /** The environment of this process. */
  readonly env: Env
  /** `config.toml`. */
  readonly file: ConfigFile
}

/** Where servers of this machine are, unless they were started at other ports. */
export const usualUrls = { agent: 'http://127.0.0.1:8000', sandbox: 'http://127.0.0.1:3000' } as const

/** The environment of this process, without settings that are empty. */
export function readEnvironment(): Env {
  dropEmptySettings(process.env)
  excludeLoopback(process.env)
  return process.env
}

/** With `NODE_USE_ENV_PROXY` a call to a server of this machine would go to the proxy, which cannot reach it. */
function excludeLoopback(env: Env): void {
  if (!env.NODE_USE_ENV_PROXY) return
  const name = env.no_proxy === undefined ? 'NO_PROXY' : 'no_proxy'
  const names = new Set([...(env[name] ?? '').split(','), '127.0.0.1', 'localhost', '::1'].filter(Boolean))
  env[name] = [...names].join(',')
}

/** Joins the environment and the file. Keys come from there: other users can see a command line. */
export function readConfig(env: Env, file: ConfigFile): Config {
  const read = (table: string) => readSettings(commandSettings, withFileSettings(env, file, table))
  const own = readSettings(commandSettings, env)
  const agent = read('agent_server')
  return {
    url: own.url ?? usualUrls.agent,
    sessionApiKey: firstKey(own.sessionApiKey),
    dataDirectory: agent.dataDirectory,
    sandboxUrl: own.sandboxUrl ?? usualUrls.sandbox,
    apiKey: firstKey(own.apiKey),
    fileKeys: { agent: firstKey(agent.sessionApiKey), sandbox: firstKey(read('sandbox_server').apiKey) },
    model: selectModel({ env, file }, {}),
    own,
    env,
    file,
  }
}

/**
 * The model that the flags, the environment or the file name, in this order. Address and key of the file
 * belong to its provider: a model of another one, or at another address, does not get them.
 */
export function selectModel(
  { env, file: { values } }: Pick<Config, 'env' | 'file'>,
  flags: { readonly model?: string | undefined; readonly baseUrl?: string | undefined },
): ModelConfig {
  const text = (key: string) => {
    const value = values.get(key)
    return typeof value === 'string' ? value : undefined
  }
  const fileName = text('model.name')
  const own = readSettings(modelSettings, env)
  const name = flags.model ?? own.name ?? fileName
  const isOfFile = name !== undefined && providerOf(name) === providerOf(fileName ?? '')
  const fileUrl = isOfFile ? text('model.base_url') : undefined
  const baseUrl = flags.baseUrl ?? own.base_url ?? fileUrl
  const fileKey = isOfFile && baseUrl === fileUrl ? text('model.api_key') : undefined
  return { name, baseUrl, apiKey: own.api_key ?? (fileKey ? new Secret(fileKey) : undefined) }
}

/** The settings of a server: the environment, then the file. */
export function serverEnvironment(
  { file, model }: Pick<Config, 'file' | 'model'>,
  table: 'agent_server' | 'sandbox_server',
  env: Env,
): Env {
  return {
    ...withFileSettings(env, file, table),
    LLM_MODEL: model.name,
    LLM_BASE_URL: model.baseUrl,
    LLM_API_KEY: model.apiKey?.reveal(),
  }
}

function providerOf(name: string): string {
  return name.split('/', 1)[0] ?? ''
}

function firstKey(keys: Secret | undefined): Secret | undefined {
  const key = keys?.reveal().split(',')[0]?.trim()
  return key ? new Secret(key) : undefined
}
