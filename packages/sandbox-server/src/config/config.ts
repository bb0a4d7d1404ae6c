import { readFileSync } from 'node:fs'
import {
  listSetting,
  llm,
  nonEmptyVariables,
  numberSetting,
  parseSettings,
  parseTelemetry,
  repositoryTrust,
  type SandboxSpec,
  sandboxSpec,
  telemetrySettings,
} from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { Secret } from '@slipway/shared/redaction'
import * as z from 'zod'

const baseUrl = z
  .url({ protocol: /^https?$/ })
  .transform((text) => text.replace(/\/+$/, ''))
  .optional()

const databaseUrl = z
  .url({ protocol: /^postgres(ql)?$/, hostname: /.*/, error: 'Should be a URL postgres://...' })
  .optional()

const portList = listSetting
  .refine(
    (ports) => ports.every((port) => /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535),
    'Should be ports, 1 to 65535, separated by commas',
  )
  .refine((ports) => ports.length <= 100, 'Should be 100 ports or fewer')
  .transform((ports) => ports.map(Number))

const maxSeconds = 2_000_000_000

/** The environment variables; docs/sandboxes.md explains each. Limits and lifetimes of 0 do not apply. */
export const environmentSchema = z.object({
  SLIPWAY_API_KEY: listSetting,
  SLIPWAY_PUBLIC_URL: baseUrl,
  SLIPWAY_EXPOSE: z.enum(['auto', 'direct', 'relay']).default('auto'),
  SLIPWAY_ALLOWED_HOSTS: listSetting,
  SLIPWAY_ALLOWED_ORIGINS: listSetting,
  SLIPWAY_LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  SLIPWAY_DRAIN_SECONDS: numberSetting(0, 600, 5),
  SLIPWAY_SECRET_KEY: z.string().min(16).optional(),
  SLIPWAY_DATABASE_URL: databaseUrl,
  SLIPWAY_LEASE_SECONDS: numberSetting(2, 300, 8),
  SLIPWAY_BACKEND: z.enum(['process', 'docker', 'kubernetes']).default('process'),
  SLIPWAY_ISOLATION: z.enum(['auto', 'bubblewrap', 'none']).default('auto'),
  SLIPWAY_SANDBOX_NETWORK: z.enum(['auto', 'private', 'shared', 'none']).default('auto'),
  SLIPWAY_SANDBOX_HOST_PORTS: portList,
  SLIPWAY_DOCKER_SOCKET: z.string().optional(),
  SLIPWAY_KUBECONFIG: z.string().optional(),
  SLIPWAY_KUBERNETES_NAMESPACE: z.string().optional(),
  SLIPWAY_KUBERNETES_REACH: z.enum(['auto', 'pod', 'api']).default('auto'),
  SLIPWAY_INTERNAL_URL: baseUrl,
  SLIPWAY_SANDBOX_IMAGE: z.string().default('slipway-agent-server'),
  /** A JSON array of specs, or the path of a file with one. */
  SLIPWAY_SANDBOX_SPECS: z.string().optional(),
  SLIPWAY_WARM_POOL: numberSetting(0, 100, 0),
  SLIPWAY_SANDBOX_MEMORY_MB: numberSetting(0, 16_777_216, 4_096),
  SLIPWAY_SANDBOX_PROCESSES: numberSetting(0, 4_194_304, 1_024),
  SLIPWAY_SANDBOX_CPUS: z.coerce
    .number({ error: 'Should be a number from 0 to 1024' })
    .min(0)
    .max(1024)
    .default(0),
  SLIPWAY_SANDBOX_DISK_MB: numberSetting(0, 1_073_741_824, 0),
  SLIPWAY_SANDBOX_MAX_DISK_MB: numberSetting(0, 1_073_741_824, 10_240),
  SLIPWAY_DISK_RESERVE_MB: numberSetting(0, 1_073_741_824, 1_024),
  SLIPWAY_SANDBOX_IDLE_SECONDS: numberSetting(0, maxSeconds, 1_200),
  SLIPWAY_SANDBOX_MAX_SESSION_SECONDS: numberSetting(0, maxSeconds, 43_200),
  SLIPWAY_SANDBOX_DELETE_AFTER_SECONDS: numberSetting(0, maxSeconds, 864_000),
  SLIPWAY_SANDBOX_START_SECONDS: numberSetting(1, 86_400, 120),
  SLIPWAY_START_WAIT_SECONDS: numberSetting(1, 86_400, 300),
  SLIPWAY_REPOSITORY_SCRIPTS: repositoryTrust.default('always'),
  SLIPWAY_RECONCILE_SECONDS: numberSetting(1, 3_600, 15),
  SLIPWAY_MAX_SANDBOXES: numberSetting(0, 1_000_000, 0),
  SLIPWAY_MAX_SANDBOXES_POLICY: z.enum(['refuse', 'pause_idle']).default('refuse'),
  /** -1 is not limited, 0 is none at all. */
  SLIPWAY_DAILY_CONVERSATION_LIMIT: z.union([z.literal('-1'), z.string().regex(/^\d{1,9}$/)]).optional(),
  SLIPWAY_MAX_CONVERSATIONS_PER_USER: numberSetting(0, 1_000_000_000, 0),
  SLIPWAY_MAX_STORED_MB_PER_USER: numberSetting(0, 1_073_741_824, 0),
  SLIPWAY_MAX_PROFILES_PER_USER: numberSetting(1, 100_000, 50),
  SLIPWAY_CONSOLE: z.stringbool().default(true),
  LLM_MODEL: z.string().optional(),
  LLM_API_KEY: z.string().optional(),
  LLM_BASE_URL: z.string().optional(),
  ...telemetrySettings,
})

/** Names from other servers of this kind, with ours. */
export const aliases: Readonly<Record<string, string>> = {
  OH_DAILY_CONVERSATION_LIMIT: 'SLIPWAY_DAILY_CONVERSATION_LIMIT',
  MAX_LLM_PROFILES_PER_USER: 'SLIPWAY_MAX_PROFILES_PER_USER',
  OH_SANDBOX_MAX_NUM_SANDBOXES: 'SLIPWAY_MAX_SANDBOXES',
  OH_SANDBOX_LIFECYCLE_IDLE_SECONDS: 'SLIPWAY_SANDBOX_IDLE_SECONDS',
  OH_SANDBOX_LIFECYCLE_MAX_SESSION_SECONDS: 'SLIPWAY_SANDBOX_MAX_SESSION_SECONDS',
  OH_SANDBOX_LIFECYCLE_DELETE_AFTER_SECONDS: 'SLIPWAY_SANDBOX_DELETE_AFTER_SECONDS',
  OH_WEB_URL: 'SLIPWAY_PUBLIC_URL',
}

export type Config = ReturnType<typeof readConfig>

type Values = z.output<typeof environmentSchema>

/** Reads the environment. Throws an Error that names the invalid variable and never shows its value. */
export function readConfig(env: Readonly<Record<string, string | undefined>>) {
  const variables = nonEmptyVariables(env)
  for (const [alias, name] of Object.entries(aliases)) {
    if (variables[name] === undefined && variables[alias] !== undefined) variables[name] = variables[alias]
  }
  const values = parseSettings(environmentSchema, variables)
  const limit = values.SLIPWAY_DAILY_CONVERSATION_LIMIT
  return {
    keys: values.SLIPWAY_API_KEY.map((key) => new Secret(key)),
    publicUrl: values.SLIPWAY_PUBLIC_URL,
    expose: values.SLIPWAY_EXPOSE,
    allowedHosts: values.SLIPWAY_ALLOWED_HOSTS,
    allowedOrigins: values.SLIPWAY_ALLOWED_ORIGINS,
    logLevel: values.SLIPWAY_LOG_LEVEL,
    drainMs: values.SLIPWAY_DRAIN_SECONDS * 1000,
    secretKey: values.SLIPWAY_SECRET_KEY === undefined ? undefined : new Secret(values.SLIPWAY_SECRET_KEY),
    /** Where rows and logs are stored instead of the data directory. */
    databaseUrl:
      values.SLIPWAY_DATABASE_URL === undefined ? undefined : new Secret(values.SLIPWAY_DATABASE_URL),
    leaseMs: values.SLIPWAY_LEASE_SECONDS * 1000,
    backend: values.SLIPWAY_BACKEND,
    isolation: values.SLIPWAY_ISOLATION,
    /** Of specs that name none; `auto` is private. */
    network: values.SLIPWAY_SANDBOX_NETWORK,
    dockerSocket: values.SLIPWAY_DOCKER_SOCKET,
    kubeconfig: values.SLIPWAY_KUBECONFIG,
    kubernetesNamespace: values.SLIPWAY_KUBERNETES_NAMESPACE,
    kubernetesReach: values.SLIPWAY_KUBERNETES_REACH,
    /** At which sandboxes of Kubernetes reach this server. */
    internalUrl: values.SLIPWAY_INTERNAL_URL,
    image: values.SLIPWAY_SANDBOX_IMAGE,
    /** Each has a backend and limits; the first is the default. */
    specs: sandboxSpecs(values),
    idleSeconds: values.SLIPWAY_SANDBOX_IDLE_SECONDS,
    maxSessionSeconds: values.SLIPWAY_SANDBOX_MAX_SESSION_SECONDS,
    deleteAfterSeconds: values.SLIPWAY_SANDBOX_DELETE_AFTER_SECONDS,
    startMs: values.SLIPWAY_SANDBOX_START_SECONDS * 1000,
    startWaitMs: values.SLIPWAY_START_WAIT_SECONDS * 1000,
    diskReserveBytes: values.SLIPWAY_DISK_RESERVE_MB * 1024 * 1024,
    /** Scripts of repositories without a decision of the user. */
    repositoryScripts: values.SLIPWAY_REPOSITORY_SCRIPTS,
    /** For specs without a limit of disk; 0: none. */
    maxDiskBytes: values.SLIPWAY_SANDBOX_MAX_DISK_MB * 1024 * 1024,
    reconcileMs: values.SLIPWAY_RECONCILE_SECONDS * 1000,
    /** 0: not limited. */
    maxSandboxes: values.SLIPWAY_MAX_SANDBOXES,
    maxSandboxesPolicy: values.SLIPWAY_MAX_SANDBOXES_POLICY,
    /** Null: not limited. */
    dailyLimit: limit === undefined || limit === '-1' ? null : Number(limit),
    /** What each user stores; 0: not limited. */
    maxConversations: values.SLIPWAY_MAX_CONVERSATIONS_PER_USER,
    maxStoredMb: values.SLIPWAY_MAX_STORED_MB_PER_USER,
    maxProfiles: values.SLIPWAY_MAX_PROFILES_PER_USER,
    /** The console is served at `/`, where there is one. */
    hasConsole: values.SLIPWAY_CONSOLE,
    model: defaultModel(values),
    telemetry: parseTelemetry(values),
  }
}

function defaultModel({ LLM_MODEL: model, LLM_API_KEY: api_key, LLM_BASE_URL: base_url }: Values) {
  return model === undefined ? undefined : llm.parse(definedMembers({ model, api_key, base_url }))
}

function sandboxSpecs(values: Values): (SandboxSpec & { readonly backend: string })[] {
  const { SLIPWAY_BACKEND: backend, SLIPWAY_SANDBOX_NETWORK: network, SLIPWAY_SANDBOX_SPECS } = values
  const ports = values.SLIPWAY_SANDBOX_HOST_PORTS
  const image = values.SLIPWAY_SANDBOX_IMAGE
  const defaultSpec = backend === 'process' ? { id: 'process' } : { id: image, image }
  const specs =
    SLIPWAY_SANDBOX_SPECS === undefined ? [sandboxSpec.parse(defaultSpec)] : parseSpecs(SLIPWAY_SANDBOX_SPECS)
  return specs.map((spec, index) => ({
    ...spec,
    backend: spec.backend ?? backend,
    network: spec.network ?? (network === 'auto' ? 'private' : network),
    host_ports: spec.host_ports.length > 0 ? spec.host_ports : ports,
    resources: { ...defaultResources(values), ...spec.resources },
    warm: index === 0 ? Math.max(spec.warm, values.SLIPWAY_WARM_POOL) : spec.warm,
  }))
}

function defaultResources(values: Values): SandboxSpec['resources'] {
  const mebibyte = 1024 * 1024
  const limits = {
    memory_bytes: values.SLIPWAY_SANDBOX_MEMORY_MB * mebibyte,
    max_processes: values.SLIPWAY_SANDBOX_PROCESSES,
    cpus: values.SLIPWAY_SANDBOX_CPUS,
    disk_bytes: values.SLIPWAY_SANDBOX_DISK_MB * mebibyte,
  }
  return Object.fromEntries(Object.entries(limits).filter(([, limit]) => limit > 0))
}

function parseSpecs(pathOrJson: string): SandboxSpec[] {
  const name = 'SLIPWAY_SANDBOX_SPECS'
  let value: unknown
  try {
    value = JSON.parse(pathOrJson.trimStart().startsWith('[') ? pathOrJson : readFileSync(pathOrJson, 'utf8'))
  } catch (cause) {
    throw new Error(`${name}: it is neither a JSON array nor the path of a file that holds one`, { cause })
  }
  const result = z.array(sandboxSpec).min(1).safeParse(value)
  if (!result.success) {
    const issue = result.error.issues[0]
    throw new Error(`${name}: ${issue?.path.join('.')}: ${issue?.message}`)
  }
  const ids = result.data.map(({ id }) => id)
  const duplicateId = ids.find((id, index) => ids.indexOf(id) !== index)
  if (duplicateId !== undefined) throw new Error(`${name}: the id ${duplicateId} is there twice`)
  return result.data
}
