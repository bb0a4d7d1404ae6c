import { hash } from 'node:crypto'
import type { SandboxSpec } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import { generateKey } from '../../auth/api-keys.ts'
import type { Resources, SandboxConfig } from '../../backends/backend.ts'
import type { SandboxSecrets } from './sandbox-secrets.ts'

export interface SandboxEnvironment {
  /** Its webhook: `http://host:port/api/v1/webhooks`; undefined without access to the control plane. */
  readonly webhooks: string | undefined
  /** Origins of web pages that may call it. */
  readonly origins: readonly string[]
  /** Idle time until it is paused; 0: never. */
  readonly idleSeconds: number
  /** Hooks, agents and rules for commands of repositories are loaded without a question. */
  readonly trustsRepositories: boolean
}

/** Settings of an agent server, which it does not pass to tools. */
const reservedVariable = /^(SLIPWAY_|OH_|SESSION_API_KEY$)/i

const webhooksVariable = 'OH_WEBHOOKS_0_BASE_URL'
const sessionKeyVariables = ['SLIPWAY_SESSION_API_KEY', 'OH_SESSION_API_KEYS_0']

/** Its settings are in its environment, also in the warm pool: they are of no owner. */
export function newSandboxConfig(
  spec: SandboxSpec,
  id: string,
  environment: SandboxEnvironment,
): SandboxSecrets & { readonly key: string } {
  const key = generateKey()
  const { webhooks, origins } = environment
  const env = {
    ...commonEnv(spec, environment),
    SLIPWAY_SESSION_API_KEY: key,
    OH_SESSION_API_KEYS_0: key,
    ...(webhooks !== undefined && {
      SLIPWAY_WEBHOOKS: JSON.stringify([{ base_url: webhooks }]),
      [webhooksVariable]: webhooks,
      ...budgetEnv(webhooks, id),
    }),
    ...(origins.length > 0 && { SLIPWAY_ALLOWED_ORIGINS: origins.join(',') }),
  }
  const order = toSandboxConfig(spec, id, env)
  return { key, initKey: null, order, specHash: configHash(spec, environment) }
}

/** The same with another session key, for another start of its processes. */
export function replaceSessionKey(secrets: SandboxSecrets): SandboxSecrets {
  if (secrets.key === null) return secrets
  const key = generateKey()
  const env = Object.entries(secrets.order.env).map(([name, value]) => [
    name,
    sessionKeyVariables.includes(name) ? key : value,
  ])
  const { order } = secrets
  const { [webhooksVariable]: webhooks } = order.env
  // Earlier versions did not set it.
  const budget = budgetEnv(webhooks, order.id)
  return { ...secrets, key, order: { ...order, env: { ...Object.fromEntries(env), ...budget } } }
}

/** Where its agent server asks before each model call; nowhere without access to the control plane. */
function budgetEnv(webhooks: string | undefined, id: string): Record<string, string> {
  const base = webhooks?.replace(/\/webhooks$/, '')
  return base === undefined ? {} : { SLIPWAY_BUDGET_URL: `${base}/sandboxes/${id}/budget` }
}

/**
 * The settings of one that an earlier version took from its pool, where agent servers waited for them (wire
 * 1.21).
 */
export function initRequest(key: string, { webhooks, origins }: SandboxEnvironment) {
  return {
    session_api_keys: [key],
    webhooks: webhooks === undefined ? [] : [{ base_url: webhooks }],
    allow_cors_origins: origins,
  }
}

/** Differs for different specs, and for other settings of the server that sandboxes get. */
export function configHash(spec: SandboxSpec, environment: SandboxEnvironment): string {
  return hash('sha256', JSON.stringify(sortKeys([spec, environment])))
}

function toResources({ resources }: SandboxSpec): Resources {
  const { memory_bytes, max_processes, cpus, disk_bytes, max_open_files } = resources
  return {
    memoryBytes: memory_bytes,
    maxProcesses: max_processes,
    cpus,
    diskBytes: disk_bytes,
    maxOpenFiles: max_open_files,
  }
}

function toSandboxConfig(spec: SandboxSpec, id: string, env: SandboxConfig['env']): SandboxConfig {
  const { image = null, command, working_dir: workingDir, network = 'private', host_ports } = spec
  const more = { hostPorts: host_ports.length > 0 ? host_ports : undefined, kubernetes: spec.kubernetes }
  return { id, image, command, env, workingDir, resources: toResources(spec), network, ...more }
}

/** Names the variables of the spec: an agent server gives its tools no others. */
function commonEnv(
  { env }: SandboxSpec,
  { idleSeconds, trustsRepositories }: SandboxEnvironment,
): Record<string, string> {
  const names = Object.keys(env).filter((name) => !reservedVariable.test(name))
  return {
    ...(names.length === 0 ? {} : { SLIPWAY_TOOL_ENVIRONMENT: names.join(',') }),
    ...(idleSeconds === 0 ? {} : { OH_RUNTIME_IDLE_TIMEOUT_SECONDS: String(idleSeconds) }),
    ...(trustsRepositories ? { SLIPWAY_REPOSITORY_TRUST: 'always' } : {}),
    // No balancer asks it, and its end has a time limit.
    SLIPWAY_DRAIN_SECONDS: '0',
    ...env,
  }
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys)
  if (!isRecord(value)) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([name, member]) => [name, sortKeys(member)]))
}
