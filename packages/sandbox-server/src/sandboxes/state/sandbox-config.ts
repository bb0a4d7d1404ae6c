import { hash, randomBytes } from 'node:crypto'
import type { SandboxSpec } from '@slipway/protocol'
import type { Order, Resources } from '../../backends/backend.ts'
import type { Kept } from './sandbox-secrets.ts'

/** What every sandbox is told about the world that it is in. */
export interface Home {
  /** Where its events go: `http://host:port/api/v1/webhooks`; undefined when it cannot reach the control plane. */
  readonly webhooks: string | undefined
  /** Origins of web pages that may call it. */
  readonly origins: readonly string[]
  /** Seconds after which it is paused when nobody uses it; 0: never. */
  readonly idleSeconds: number
}

/** What an agent server that starts without settings is given when somebody claims it (wire 1.21). */
export interface InitBody {
  readonly session_api_keys: readonly string[]
  readonly webhooks: readonly { readonly base_url: string }[]
  readonly allow_cors_origins: readonly string[]
}

/** Settings of an agent server: it refuses to give them to tools. */
const ownVariable = /^(SLIPWAY_|OH_|SESSION_API_KEY$)/i

/** 32 random bytes in text: fits into headers and environments. */
export function newKey(): string {
  return `sk-slipway-${randomBytes(32).toString('base64url')}`
}

/** One that is somebody's from its start: its settings are in its environment. */
export function coldStart(spec: SandboxSpec, id: string, home: Home): Kept & { readonly key: string } {
  const key = newKey()
  const env = {
    ...commonEnv(spec, home),
    SLIPWAY_SESSION_API_KEY: key,
    OH_SESSION_API_KEYS_0: key,
    ...(home.webhooks === undefined
      ? {}
      : {
          SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: home.webhooks }]),
          OH_WEBHOOKS_0_BASE_URL: home.webhooks,
        }),
    ...(home.origins.length === 0 ? {} : { SLIPWAY_ALLOWED_ORIGINS: home.origins.join(',') }),
  }
  return { key, initKey: null, order: orderOf(spec, id, env), specHash: specHash(spec) }
}

/** One of the warm pool: nobody's, and it waits for its settings. */
export function warmStart(spec: SandboxSpec, id: string, home: Home): Kept {
  const initKey = newKey()
  const env = {
    ...commonEnv(spec, home),
    SLIPWAY_DEFERRED_INIT: 'true',
    SLIPWAY_INIT_API_KEY: initKey,
  }
  return { key: null, initKey, order: orderOf(spec, id, env), specHash: specHash(spec) }
}

export function initBody(key: string, home: Home): InitBody {
  return {
    session_api_keys: [key],
    webhooks: home.webhooks === undefined ? [] : [{ base_url: home.webhooks }],
    allow_cors_origins: home.origins,
  }
}

/** Another text when anything of the spec is another. */
export function specHash(spec: SandboxSpec): string {
  return hash('sha256', JSON.stringify(sorted(spec)))
}

export function resourcesOf({ resources }: SandboxSpec): Resources {
  const { memory_bytes, max_processes, cpus, disk_bytes, max_open_files } = resources
  return {
    ...(memory_bytes === undefined ? {} : { memoryBytes: memory_bytes }),
    ...(max_processes === undefined ? {} : { maxProcesses: max_processes }),
    ...(cpus === undefined ? {} : { cpus }),
    ...(disk_bytes === undefined ? {} : { diskBytes: disk_bytes }),
    ...(max_open_files === undefined ? {} : { maxOpenFiles: max_open_files }),
  }
}

function orderOf(spec: SandboxSpec, id: string, env: Readonly<Record<string, string>>): Order {
  return {
    id,
    image: spec.image ?? null,
    command: spec.command,
    env,
    workingDir: spec.working_dir,
    resources: resourcesOf(spec),
    network: spec.network,
  }
}

/** The variables of the spec reach the tools too: an agent server gives them no others than those that it is told to. */
function commonEnv({ env }: SandboxSpec, { idleSeconds }: Home): Record<string, string> {
  const names = Object.keys(env).filter((name) => !ownVariable.test(name))
  return {
    ...(names.length === 0 ? {} : { SLIPWAY_TOOL_ENVIRONMENT: names.join(',') }),
    ...(idleSeconds === 0 ? {} : { OH_RUNTIME_IDLE_TIMEOUT_SECONDS: String(idleSeconds) }),
    ...env,
  }
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, member]) => [name, sorted(member)]))
}
