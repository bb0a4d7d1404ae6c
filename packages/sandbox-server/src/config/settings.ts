import {
  databaseSetting,
  flagSetting,
  listSetting,
  numberSetting,
  repositoryTrust,
  secondsSetting,
  serverSettings,
  setting,
  telemetrySettings,
  textSetting,
  toSecret,
  urlSetting,
  withoutSlash,
} from '@slipway/protocol'
import * as z from 'zod'

const baseUrl = urlSetting.transform(withoutSlash).optional()

const portList = listSetting
  .refine(
    (ports) => ports.every((port) => /^[1-9]\d{0,4}$/.test(port) && Number(port) <= 65_535),
    'Should be ports, 1 to 65535, separated by commas',
  )
  .refine((ports) => ports.length <= 100, 'Should be 100 ports or fewer')
  .transform((ports) => ports.map(Number))

const organizationIds = listSetting
  .refine(
    (ids) => ids.every((id) => z.guid().safeParse(id).success),
    'Should be ids of organisations, separated by commas',
  )
  .transform((ids) => ids.map((id) => id.toLowerCase()))

const cores = z.coerce.number({ error: 'Should be a number from 0 to 1024' }).min(0).max(1024).default(0)

/** Null is not limited, 0 is none at all. */
const dailyLimit = z
  .union([z.literal('-1'), z.string().regex(/^\d{1,9}$/)])
  .default('-1')
  .transform((text) => (text === '-1' ? null : Number(text)))

/** Dollars for a million tokens are millionths of a dollar for one. */
const tokenPrice = z
  .string()
  .regex(/^\d{1,6}(\.\d{1,6})?\/\d{1,6}(\.\d{1,6})?$/, 'Should be two numbers, as 5/25')
  .optional()
  .transform((text) => {
    const [input, output] = text?.split('/').map(Number) ?? []
    return input === undefined || output === undefined ? undefined : { input, output }
  })

function mebibytes(max: number, defaultValue: number) {
  return numberSetting(0, max, defaultValue).transform((count) => count * 1024 * 1024)
}

// biome-ignore format: one line a setting
/**
 * The settings of the sandbox server, by the members of its `Config`. Limits and lifetimes of 0 do not apply.
 */
export const settings = {
  keys: setting('SLIPWAY_API_KEY', '0.1.0', listSetting.transform((keys) => keys.map(toSecret)), 'API keys of the administrator, separated by commas. Without one a key is made at the first start and printed once.', { isSecret: true }),
  publicUrl: setting('SLIPWAY_PUBLIC_URL', '0.1.0', baseUrl, 'Address under which callers reach this server, with the path of a reverse proxy if there is one. Without it the address that it listens on.', { aliases: ['OH_WEB_URL'] }),
  expose: setting('SLIPWAY_EXPOSE', '0.1.0', z.enum(['auto', 'direct', 'relay']).default('auto'), 'How callers reach agent servers: direct by their own port, relay through this server; auto is direct when the public address is one of this machine.'),
  allowedHosts: setting('SLIPWAY_ALLOWED_HOSTS', '0.1.0', listSetting, 'Host names that requests may name besides loopback, separated by commas. Without it any; browsers on loopback may name that of `SLIPWAY_PUBLIC_URL` only.'),
  allowedOrigins: setting('SLIPWAY_ALLOWED_ORIGINS', '0.1.0', listSetting, 'Origins of web pages that may call this server and its sandboxes besides those of this server.'),
  automationUrl: setting('SLIPWAY_AUTOMATION_URL', '0.2.0', baseUrl, 'Address of the scheduler of OpenHands (`openhands-automation`), `http://127.0.0.1:8010`: `/api/automation` leads there. See [Scheduled work](guide/automations.md).'),
  ...serverSettings,
  databaseUrl: setting('SLIPWAY_DATABASE_URL', '0.2.0', databaseSetting, 'PostgreSQL database of everything that this server stores, `postgres://user:password@host/database`; see [scale.md](scale.md). Without one it is in the data directory.', { isSecret: true }),
  leaseMs: setting('SLIPWAY_LEASE_SECONDS', '0.2.0', secondsSetting(2, 300, 8), 'With a database: a server that is silent for so long loses its work to another.'),
  backend: setting('SLIPWAY_BACKEND', '0.1.0', z.enum(['process', 'docker', 'kubernetes', 'agent-sandbox']).default('process'), 'Where sandboxes are made unless their spec says otherwise: process, docker, kubernetes, or agent-sandbox (Pods that the controller of kubernetes-sigs/agent-sandbox makes).'),
  isolation: setting('SLIPWAY_ISOLATION', '0.1.0', z.enum(['auto', 'bubblewrap', 'none']).default('auto'), 'Of process sandboxes: bubblewrap, none, or bubblewrap where it is installed (auto).'),
  network: setting('SLIPWAY_SANDBOX_NETWORK', '0.2.0', z.enum(['auto', 'private', 'shared', 'none']).default('auto'), 'Network of sandboxes whose spec names none: private, shared or none; auto is private, or shared in the demo where pasta is missing.'),
  dockerSocket: setting('SLIPWAY_DOCKER_SOCKET', '0.1.0', textSetting, 'Unix socket of the Docker or Podman engine; the usual places are looked at without it.'),
  kubeconfig: setting('SLIPWAY_KUBECONFIG', '0.2.0', textSetting, 'Path of a kubeconfig for the cluster of the kubernetes backend; unset, the usual one or the service account of the Pod.'),
  kubernetesNamespace: setting('SLIPWAY_KUBERNETES_NAMESPACE', '0.2.0', textSetting, "Namespace of the sandboxes; unset, that of the kubeconfig's context or of the Pod."),
  kubernetesReach: setting('SLIPWAY_KUBERNETES_REACH', '0.2.0', z.enum(['auto', 'pod', 'api']).default('auto'), 'How Pods are reached: by their addresses (pod), through the API server (api), or by where this server runs (auto).'),
  internalUrl: setting('SLIPWAY_INTERNAL_URL', '0.2.0', baseUrl, 'URL at which Pods reach this server; unset, their events do not arrive.'),
  image: setting('SLIPWAY_SANDBOX_IMAGE', '0.1.0', z.string().default('slipway-agent-server'), 'Image of docker and kubernetes sandboxes whose spec names none.'),
  specs: setting('SLIPWAY_SANDBOX_SPECS', '0.1.0', textSetting, 'Specs of sandboxes: a JSON array, or the path of a file that holds one. The first one is the default.', { isSecret: true, isJson: true }),
  specDefaults: {
    host_ports: setting('SLIPWAY_SANDBOX_HOST_PORTS', '0.2.0', portList, 'Loopback ports of this machine, separated by commas, that process sandboxes with a private network reach at their 127.0.0.1, such as 11434 for a local model; for specs without `host_ports`.'),
    warm: setting('SLIPWAY_WARM_POOL', '0.1.0', numberSetting(0, 100, 0), 'Sandboxes of the default spec that are kept ready before anybody asks.'),
    resources: {
      memory_bytes: setting('SLIPWAY_SANDBOX_MEMORY_MB', '0.1.0', mebibytes(16_777_216, 4_096), 'Memory of a sandbox whose spec says nothing, in MiB; 0 is not limited.'),
      max_processes: setting('SLIPWAY_SANDBOX_PROCESSES', '0.1.0', numberSetting(0, 4_194_304, 1_024), 'Processes and threads of a sandbox whose spec says nothing; 0 is not limited.'),
      cpus: setting('SLIPWAY_SANDBOX_CPUS', '0.1.0', cores, 'Cores of a sandbox whose spec says nothing; 0 is not limited.'),
      disk_bytes: setting('SLIPWAY_SANDBOX_DISK_MB', '0.1.0', mebibytes(1_073_741_824, 0), 'Disk of a sandbox whose spec says nothing, in MiB; 0 is not limited.'),
    },
  },
  maxDiskBytes: setting('SLIPWAY_SANDBOX_MAX_DISK_MB', '0.2.0', mebibytes(1_073_741_824, 10_240), 'MiB on disk above which a running process or container sandbox is paused whose spec has no limit of disk; 0 is never. A resumed one may remove files, and is paused again when it keeps clearly more.'),
  diskReserveBytes: setting('SLIPWAY_DISK_RESERVE_MB', '0.2.0', mebibytes(1_073_741_824, 1_024), 'Free space in MiB below which the process or container sandbox that keeps most on disk is paused, at most a tenth of the file system; 0 is never.'),
  maxForkBytes: setting('SLIPWAY_FORK_MAX_MB', '0.2.0', mebibytes(1_073_741_824, 10_240), 'MiB on disk of a sandbox up to which a conversation can be forked with its files; 0 is not limited.'),
  idleSeconds: setting('SLIPWAY_SANDBOX_IDLE_SECONDS', '0.1.0', numberSetting(0, 2_000_000_000, 1_200), 'Seconds without use after which a sandbox is paused; 0 is never.', { aliases: ['OH_SANDBOX_LIFECYCLE_IDLE_SECONDS'] }),
  maxSessionSeconds: setting('SLIPWAY_SANDBOX_MAX_SESSION_SECONDS', '0.1.0', numberSetting(0, 2_000_000_000, 0), 'Seconds after which a running sandbox is paused in any case; 0 is never.', { aliases: ['OH_SANDBOX_LIFECYCLE_MAX_SESSION_SECONDS'] }),
  deleteAfterSeconds: setting('SLIPWAY_SANDBOX_DELETE_AFTER_SECONDS', '0.1.0', numberSetting(0, 2_000_000_000, 0), 'Seconds without running after which a sandbox is deleted with its workspace; 0 is never.', { aliases: ['OH_SANDBOX_LIFECYCLE_DELETE_AFTER_SECONDS'] }),
  startMs: setting('SLIPWAY_SANDBOX_START_SECONDS', '0.1.0', secondsSetting(1, 86_400, 120), 'Seconds that a sandbox may take until its agent server answers.'),
  startWaitMs: setting('SLIPWAY_START_WAIT_SECONDS', '0.1.0', secondsSetting(1, 86_400, 300), 'Seconds that the start of a conversation waits for its sandbox.'),
  repositoryScripts: setting('SLIPWAY_REPOSITORY_SCRIPTS', '0.2.0', repositoryTrust.default('always'), 'Scripts of a repository (setup.sh and pre-commit.sh in `.openhands`) that its user has not decided about: always runs them in the sandbox, and loads its hooks, agents and rules there; skip leaves them out, ask lets the start wait for a decision. See [Trust](security.md#trust-in-repositories).'),
  reconcileMs: setting('SLIPWAY_RECONCILE_SECONDS', '0.1.0', secondsSetting(1, 3_600, 15), 'Seconds between two comparisons of what is wanted with what is there.'),
  maxSandboxes: setting('SLIPWAY_MAX_SANDBOXES', '0.1.0', numberSetting(0, 1_000_000, 0).removeDefault().optional(), 'Running sandboxes of one user without their own limit (`slipway quotas set --sandboxes`), administrators included; 0 is not limited. Unset: 10, for starts alone and not for resumes; with the kubernetes backend no limit.', { aliases: ['OH_SANDBOX_MAX_NUM_SANDBOXES'] }),
  maxSandboxesPolicy: setting('SLIPWAY_MAX_SANDBOXES_POLICY', '0.1.0', z.enum(['refuse', 'pause_idle']).default('refuse'), 'What happens at that limit: refuse with 429, or pause_idle, which pauses one that does nothing.'),
  dailyLimit: setting('SLIPWAY_DAILY_CONVERSATION_LIMIT', '0.1.0', dailyLimit, 'Conversations that a user may start on a day (UTC), unless the user or the organisation has another limit. -1 or unset is not limited, 0 is none at all.', { aliases: ['OH_DAILY_CONVERSATION_LIMIT'] }),
  exemptOrgs: setting('SLIPWAY_EXEMPT_ORGANIZATIONS', '0.2.0', organizationIds, 'Ids of organisations without that limit, separated by commas, for requests that work in one: with a key that is bound to it, by `X-Org-Id`, or of a user whose first organisation it is. A limit of the organisation or the user precedes.'),
  maxConversations: setting('SLIPWAY_MAX_CONVERSATIONS_PER_USER', '0.2.0', numberSetting(0, 1_000_000_000, 0), 'Conversations that a user may have, unless an administrator sets another limit for the user; 0 is not limited.'),
  maxStoredMb: setting('SLIPWAY_MAX_STORED_MB_PER_USER', '0.2.0', numberSetting(0, 1_073_741_824, 0), 'Events that a user may store, in MiB, unless an administrator sets another limit for the user; 0 is not limited.'),
  maxProfiles: setting('SLIPWAY_MAX_PROFILES_PER_USER', '0.1.0', numberSetting(1, 100_000, 50), 'Saved models of one user.', { aliases: ['MAX_LLM_PROFILES_PER_USER'] }),
  defaultPrice: setting('SLIPWAY_BUDGET_DEFAULT_PRICE', '0.2.0', tokenPrice, 'Where budgets apply, the price of models without a known one: dollars for a million tokens of input and of output, as 5/25. Unset: their calls are refused. See [Budgets](guide/users.md#budgets).'),
  hasConsole: setting('SLIPWAY_CONSOLE', '0.2.0', flagSetting(true), 'Whether the command shows the console at the address of the server.'),
  model: {
    model: setting('LLM_MODEL', '0.1.0', textSetting, 'Model of users who have set none: provider/name.'),
    api_key: setting('LLM_API_KEY', '0.1.0', textSetting, 'Key of that model.', { isSecret: true }),
    base_url: setting('LLM_BASE_URL', '0.1.0', textSetting, 'Address of that model.'),
  },
  telemetry: telemetrySettings,
}
