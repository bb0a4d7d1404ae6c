import { hash, randomBytes } from 'node:crypto'
import type { SandboxSpec } from '@slipway/protocol'
import type { Resources, SandboxConfig } from '../../backends/backend.ts'
import type { SandboxSecrets } from './sandbox-secrets.ts'

/** What every sandbox is told about the world that it is in. */
export interface SandboxEnvironment {
  /**
   * Where its events go: `http://host:port/api/v1/webhooks`; undefined when it cannot reach the control
   * plane.
   */
  readonly webhooks: string | undefined
  /** Origins of web pages that may call it. */
  readonly origins: readonly string[]
  /** Seconds after which it is paused when nobody uses it; 0: never. */
  readonly idleSeconds: number
}

/** What an agent server that starts without settings is given when somebody claims it (wire 1.21). */
export interface InitRequest {
  readonly session_api_keys: readonly string[]
  readonly webhooks: readonly { readonly base_url: string }[]
  readonly allow_cors_origins: readonly string[]
}

/** Settings of an agent server: it refuses to give them to tools. */
const reservedVariable = /^(SLIPWAY_|OH_|SESSION_API_KEY$)/i

/** 32 random bytes in text: fits into headers and environments. */
export function generateKey(): string {
  return `sk-slipway-${randomBytes(32).toString('base64url')}`
}

/** One that is somebody's from its start: its settings are in its environment. */
export function newSandboxConfig(
  spec: SandboxSpec,
  id: string,
  environment: SandboxEnvironment,
): SandboxSecrets & { readonly key: string } {
  const key = generateKey()
  const env = {
    ...commonEnv(spec, environment),
    SLIPWAY_SESSION_API_KEY: key,
    OH_SESSION_API_KEYS_0: key,
    ...(environment.webhooks === undefined
      ? {}
      : {
          SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: environment.webhooks }]),
          OH_WEBHOOKS_0_BASE_URL: environment.webhooks,
        }),
    ...(environment.origins.length === 0 ? {} : { SLIPWAY_ALLOWED_ORIGINS: environment.origins.join(',') }),
  }
  return { key, initKey: null, order: toSandboxConfig(spec, id, env), specHash: specHash(spec) }
}

/** One of the warm pool: nobody's, and it waits for its settings. */
export function pooledSandboxConfig(
  spec: SandboxSpec,
  id: string,
  environment: SandboxEnvironment,
): SandboxSecrets {
  const initKey = generateKey()
  const env = {
    ...commonEnv(spec, environment),
    SLIPWAY_DEFERRED_INIT: 'true',
    SLIPWAY_INIT_API_KEY: initKey,
  }
  return { key: null, initKey, order: toSandboxConfig(spec, id, env), specHash: specHash(spec) }
}

export function initRequest(key: string, environment: SandboxEnvironment): InitRequest {
  return {
    session_api_keys: [key],
    webhooks: environment.webhooks === undefined ? [] : [{ base_url: environment.webhooks }],
    allow_cors_origins: environment.origins,
  }
}

/** Another text when anything of the spec is another. */
export function specHash(spec: SandboxSpec): string {
  return hash('sha256', JSON.stringify(sortKeys(spec)))
}

export function toResources({ resources }: SandboxSpec): Resources {
  const { memory_bytes, max_processes, cpus, disk_bytes, max_open_files } = resources
  return {
    ...(memory_bytes === undefined ? {} : { memoryBytes: memory_bytes }),
    ...(max_processes === undefined ? {} : { maxProcesses: max_processes }),
    ...(cpus === undefined ? {} : { cpus }),
    ...(disk_bytes === undefined ? {} : { diskBytes: disk_bytes }),
    ...(max_open_files === undefined ? {} : { maxOpenFiles: max_open_files }),
  }
}

function toSandboxConfig(
  spec: SandboxSpec,
  id: string,
  env: Readonly<Record<string, string>>,
): SandboxConfig {
  return {
    id,
    image: spec.image ?? null,
    command: spec.command,
    env,
    workingDir: spec.working_dir,
    resources: toResources(spec),
    network: spec.network,
  }
}

/**
 * The variables of the spec reach the tools too: an agent server gives them no others than those that it is
 * told to.
 */
function commonEnv({ env }: SandboxSpec, { idleSeconds }: SandboxEnvironment): Record<string, string> {
  const names = Object.keys(env).filter((name) => !reservedVariable.test(name))
  return {
    ...(names.length === 0 ? {} : { SLIPWAY_TOOL_ENVIRONMENT: names.join(',') }),
    ...(idleSeconds === 0 ? {} : { OH_RUNTIME_IDLE_TIMEOUT_SECONDS: String(idleSeconds) }),
    ...env,
  }
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, member]) => [name, sortKeys(member)]))
}
