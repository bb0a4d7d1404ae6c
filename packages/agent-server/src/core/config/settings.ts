import { parseBasePath } from '@slipway/http'
import {
  type CommandRule,
  commandRules,
  commandSandboxMode,
  databaseSetting,
  flagSetting,
  limitSetting,
  listSetting,
  metricsExportSettings,
  numberSetting,
  repositoryTrust,
  secondsSetting,
  secretSetting,
  serverSettings,
  setting,
  settingRows,
  telemetrySettings,
  textSetting,
  toSecret,
  urlSetting,
  validationIssues,
  wireVersion,
  withoutSlash,
} from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import * as z from 'zod'
import { parseLaunchedProfile } from './managed-runtime.ts'
import { parseMarketplaces, parseSkillsSource } from './marketplaces.ts'

const address = z.url({ protocol: /^https?$/, error: 'Should be a URL https://...' })

const storageLimit = numberSetting(0, 1_073_741_824, 0).transform((mebibytes) =>
  mebibytes === 0 ? Number.POSITIVE_INFINITY : mebibytes * 1024 ** 2,
)

/** From a sandbox with a private network it is a Unix socket (see `unixFetch`). */
const reachableAddress = z
  .string()
  .regex(/^(https?|http\+unix):\/\/\S+$/, 'Should be a URL https://... or http+unix://...')
  .transform(withoutSlash)

// biome-ignore format: one line a setting
/** The settings of the agent server, by the members of its `Config`. */
export const settings = {
  sessionKeys: setting('SLIPWAY_SESSION_API_KEY', '0.1.0', textSetting, 'Session key that callers send as X-Session-API-Key. Several are separated by commas. Without one the server makes one in its data directory.', { isSecret: true, aliases: ['OH_SESSION_API_KEYS_0', 'SESSION_API_KEY'] }),
  isKeyless: setting('SLIPWAY_NO_KEY', '0.2.0', flagSetting(false), 'Make and require no key where none is configured: every user and program of the machine may use the server, which then binds to loopback only.'),
  isDeferred: setting('SLIPWAY_DEFERRED_INIT', '0.1.0', flagSetting(false), 'Wait for the keys and other settings, which POST /api/init brings; nothing else is answered before.', { aliases: ['OH_DEFERRED_INIT'] }),
  initKey: setting('SLIPWAY_INIT_API_KEY', '0.1.0', secretSetting, 'Key that is sent as X-Init-API-Key with these settings; SLIPWAY_SECRET_KEY unless given.', { isSecret: true }),
  bashRetentionMs: setting('SLIPWAY_BASH_RETENTION_SECONDS', '0.1.0', limitSetting(2_000_000_000, 1000), 'Seconds for which commands of /api/bash are kept after their end; 0 keeps them as long as there is room.', { aliases: ['OH_BASH_EVENTS_RETENTION_SECONDS'] }),
  allowedHosts: setting('SLIPWAY_ALLOWED_HOSTS', '0.1.0', listSetting, 'Host names that requests may name besides loopback, separated by commas. Without it any, where a key is required; browsers on loopback may name that of `SLIPWAY_WEB_URL` only.'),
  allowedOrigins: setting('SLIPWAY_ALLOWED_ORIGINS', '0.1.0', listSetting, 'Origins of web pages that may call the server besides its own, separated by commas.', { aliases: ['OH_ALLOW_CORS_ORIGINS_0'] }),
  allowedOriginPattern: setting('SLIPWAY_ALLOWED_ORIGIN_PATTERN', '0.2.0', z.string().transform(parsePattern).optional(), 'Regular expression of whole origins, in lower case, whose pages may call too.', { aliases: ['OH_ALLOW_CORS_ORIGIN_REGEX'] }),
  dockerHost: setting('DOCKER_HOST_ADDR', '0.2.0', textSetting, 'Host whose pages of `http://`, on any port, may call too: the machine that containers see.'),
  webUrl: setting('SLIPWAY_WEB_URL', '0.2.0', address.transform(withoutSlash).optional(), 'Where a proxy shows the server: its pages may call, every route answers below its path too, and OpenAPI and cookies name that path.', { aliases: ['OH_WEB_URL'] }),
  applicationIngress: {
    url: setting('SLIPWAY_APP_BACKEND_URL', '0.2.0', textSetting, 'Origin at which pages of applications reach their programs, `https://apps.example.org`; a separate one, because these pages act as pages of it.', { aliases: ['OH_APP_BACKEND_PUBLIC_URL'], isCompat: true }),
    trustsForwardedHeaders: setting('SLIPWAY_TRUST_FORWARDED_HEADERS', '0.2.0', flagSetting(false), 'X-Forwarded-Host and X-Forwarded-Proto of a proxy say to which origin a request for applications was sent.', { aliases: ['OH_TRUST_FORWARDED_HEADERS'], isCompat: true }),
  },
  applicationSessionMs: setting('SLIPWAY_APP_BACKEND_SESSION_SECONDS', '0.2.0', secondsSetting(1, 86_400, 300), 'Seconds for which a page of an application reaches its program before it asks again.', { isCompat: true }),
  worktreeRoot: setting('SLIPWAY_WORKTREE_ROOT', '0.2.0', z.string().regex(/^\//, 'Should be an absolute path').optional(), 'Absolute path below which worktrees of conversations are made, instead of the data directory.', { aliases: ['OH_CONVERSATION_WORKTREE_ROOT'] }),
  ...serverSettings,
  secretKey: { ...serverSettings.secretKey, aliases: ['OH_SECRET_KEY'] },
  maxSocketsPerConversation: setting('SLIPWAY_MAX_SOCKETS_PER_CONVERSATION', '0.1.0', numberSetting(1, 100_000, 2_000), 'Open WebSockets of one conversation; one more is closed with 1013.'),
  stallMs: setting('SLIPWAY_STALL_SECONDS', '0.1.0', secondsSetting(1, 3_600, 30), 'Seconds that a WebSocket reader may stand still before it is closed with 1013.'),
  heartbeatMs: setting('SLIPWAY_HEARTBEAT_SECONDS', '0.1.0', secondsSetting(1, 300, 5), 'Seconds between the pings of a WebSocket, and of silence before a server-sent event stream carries a comment; shorter than what a proxy on the way allows.'),
  confirmationDeadlineMs: setting('SLIPWAY_CONFIRMATION_DEADLINE_SECONDS', '0.1.0', limitSetting(2_000_000, 1000), 'Seconds after which actions without an answer are rejected; 0 sets no deadline.'),
  maxConcurrentRuns: setting('SLIPWAY_MAX_CONCURRENT_RUNS', '0.1.0', numberSetting(1, 100_000, 100), 'Conversations that run at the same time; beyond it a creation is refused whole, and a message is stored without its run; both are 429.', { aliases: ['OH_MAX_CONCURRENT_RUNS'] }),
  queuesRuns: setting('SLIPWAY_QUEUE_RUNS', '0.2.0', flagSetting(false), '`1`: runs above that limit wait for their turn instead; the state update `run_queued` says so.'),
  maxRunRecoveries: setting('SLIPWAY_MAX_RUN_RECOVERIES', '0.2.0', numberSetting(0, 100, 3), 'How often a run is continued whose server died; 0 leaves it as an error. Servers that share a database always continue it.'),
  conversationIdleMs: setting('SLIPWAY_CONVERSATION_IDLE_SECONDS', '0.1.0', secondsSetting(1, 2_000_000, 1_200), 'Seconds after which a conversation that does nothing is taken out of memory; of those that rest after a run, all but 32 sooner.', { aliases: ['OH_CONVERSATION_IDLE_TTL_SECONDS'] }),
  storageLimits: {
    totalBytes: setting('SLIPWAY_MAX_STORED_MB', '0.2.0', storageLimit, 'MiB of events that the server stores; messages, imports and steps of agents beyond it are refused with 507. 0 does not limit them.'),
    conversationBytes: setting('SLIPWAY_MAX_CONVERSATION_MB', '0.2.0', storageLimit, 'The same for each conversation.'),
  },
  retentionMs: setting('SLIPWAY_RETENTION_DAYS', '0.2.0', limitSetting(100_000, 86_400_000), 'Days after its last change after which a conversation without tags is deleted, unless it runs or waits for confirmation; 0 keeps all.'),
  toolEnvironment: setting('SLIPWAY_TOOL_ENVIRONMENT', '0.1.0', listSetting, 'Names of environment variables that tools get besides the usual ones, separated by commas. Settings of the server are refused.'),
  toolUser: setting('SLIPWAY_TOOL_USER', '0.2.0', textSetting, 'Account whose rights tools have when the server runs as root on Linux: a name or user id of `/etc/passwd`, or `<uid>:<gid>:<home>`. See [Tools of a root server](security.md#tools-of-a-root-server).'),
  maxProfiles: setting('SLIPWAY_MAX_PROFILES', '0.1.0', numberSetting(1, 10_000, 50), 'Profiles of models that may be kept; one more is refused.'),
  webhooks: setting('SLIPWAY_WEBHOOKS', '0.1.0', secretSetting, 'Receivers of events: a JSON array of {"base_url", "headers"?, "event_buffer_size"?, "flush_delay"?, "retry_delay"?, "full_state"?}; addresses are http, https or http+unix.', { isSecret: true, isJson: true, aliases: ['OH_WEBHOOKS', 'OH_WEBHOOKS_0_BASE_URL'] }),
  skillsSource: setting('SLIPWAY_SKILLS_SOURCE', '0.1.0', z.string().transform(parseSkillsSource).optional(), 'Collection of skills that is there for everybody: a git URL, github:owner/repo or an absolute directory. Without one there is none.', { isSecret: true }),
  marketplaces: setting('SLIPWAY_MARKETPLACES', '0.1.0', z.string().transform(parseMarketplaces).default([]), 'Marketplaces of plugins and skills: a JSON array of {"name", "source", "ref"?, "repo_path"?, "auto_load"?}; auto_load is true, false or a list of names, and what it names is in every conversation.', { isSecret: true, isJson: true }),
  confineFiles: setting('SLIPWAY_CONFINE_FILES', '0.1.0', flagSetting(true), 'Keep the files that callers and tools name inside the workspace.'),
  commandRules: setting('SLIPWAY_COMMAND_RULES', '0.2.0', z.string().transform(parseCommandRules).default([]), 'Rules for commands of all conversations, a JSON array such as `[{"pattern": "git push *", "decision": "ask"}]`. See [Rules for commands](agent.md#rules-for-commands).', { isJson: true }),
  commandSandbox: {
    mode: setting('SLIPWAY_COMMAND_SANDBOX', '0.2.0', commandSandboxMode.optional(), 'What commands and file tools of agents may change in conversations that do not say it: off (everything), workspace-write, read-only; needs bubblewrap. See [Sandbox for commands](agent.md#sandbox-for-commands). Set to off, it also lets them [read the keys](security.md#keys-and-tools) of the server.'),
    network: setting('SLIPWAY_COMMAND_NETWORK', '0.2.0', flagSetting(false), 'Whether commands in that sandbox reach the network.'),
  },
  hasCheckpoints: setting('SLIPWAY_CHECKPOINTS', '0.2.0', flagSetting(false), 'Store the files of the workspace before each step of the agent, so that any step can be restored; needs git. See [Checkpoints](agent.md#checkpoints).'),
  hasLanguageServers: setting('SLIPWAY_LANGUAGE_SERVERS', '0.2.0', flagSetting(true), 'Ask installed language servers for the errors that an edit of an agent has brought. See [Tools](agent.md#tools).'),
  hasBrowser: setting('SLIPWAY_BROWSER', '0.2.0', flagSetting(true), 'Whether agents may use the browser of the machine: Chromium or Chrome on the `PATH`, in the usual places, or installed by Playwright (`PLAYWRIGHT_BROWSERS_PATH`).', { aliases: ['OH_ENABLE_BROWSER'] }),
  editor: {
    isOn: setting('SLIPWAY_EDITOR', '0.2.0', flagSetting(false), 'Start an editor in the browser with the server, with the rights of tools; see [Editor](operations.md#editor).', { aliases: ['OH_ENABLE_VSCODE'], isCompat: true }),
    command: setting('SLIPWAY_EDITOR_COMMAND', '0.2.0', textSetting, 'Path or name of the editor; openvscode-server or code-server of the `PATH` unless given.', { isCompat: true }),
    host: setting('SLIPWAY_EDITOR_HOST', '0.2.0', z.string().default('127.0.0.1'), 'Address at which the editor is reached; another one than loopback shows it to other machines, which need its token.', { isCompat: true }),
    port: setting('SLIPWAY_EDITOR_PORT', '0.2.0', numberSetting(0, 65_535, 8_001), 'Port at which the editor is reached; 0 takes any free one.', { aliases: ['OH_VSCODE_PORT'], isCompat: true }),
    basePath: setting('SLIPWAY_EDITOR_BASE_PATH', '0.2.0', z.string().transform(parseEditorPath).default(''), 'Path below which a proxy shows the editor, such as /team/editor.', { aliases: ['OH_VSCODE_BASE_PATH'], isCompat: true }),
  },
  subscription: {
    clientId: setting('SLIPWAY_SUBSCRIPTION_CLIENT_ID', '0.2.0', textSetting, 'Client id for the sign-in with a subscription of OpenAI, see [Subscriptions](operations.md#subscriptions). Without one there is no sign-in.'),
    issuer: setting('SLIPWAY_SUBSCRIPTION_ISSUER', '0.2.0', urlSetting.default('https://auth.openai.com').transform(withoutSlash), 'Where users sign in.'),
    modelsUrl: setting('SLIPWAY_SUBSCRIPTION_MODELS_URL', '0.2.0', urlSetting.default('https://chatgpt.com/backend-api/codex').transform(withoutSlash), 'Base URL of the models of a subscription.'),
  },
  keyRefresh: {
    url: setting('SLIPWAY_LLM_API_KEY_REFRESH_URL', '0.2.0', address.transform(toSecret).optional(), 'Address that answers a GET with the present key of managed models as text; it is asked once when a provider rejects a key with 401, see [Managed keys](operations.md#managed-keys).', { isSecret: true, aliases: ['OH_LLM_API_KEY_REFRESH_URL'], isCompat: true }),
    baseUrls: setting('SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS', '0.2.0', listSetting, 'The only base URLs of models to which that key is sent, separated by commas; without one no key is fetched.', { aliases: ['OH_LLM_API_KEY_REFRESH_BASE_URLS'], isCompat: true }),
    headers: setting('SLIPWAY_LLM_API_KEY_REFRESH_HEADERS', '0.2.0', secretSetting, "Headers of that request, a JSON object; `$NAME`, also in braces, in values is a variable of the server's environment.", { isSecret: true, aliases: ['OH_LLM_API_KEY_REFRESH_HEADERS'], isCompat: true }),
  },
  launchedProfile: setting('SLIPWAY_RUNTIME_LAUNCHED_PROFILE', '0.2.0', z.string().transform(parseLaunchedProfile).optional(), 'The agent profile that conversations without one show as theirs, a JSON object {"agent_profile_id", "revision", "secret_refs"?}; `secret_refs` names the secrets that they may get.', { aliases: ['OH_RUNTIME_LAUNCHED_PROFILE'], isCompat: true }),
  budgetUrl: setting('SLIPWAY_BUDGET_URL', '0.2.0', reachableAddress.optional(), 'Where the server asks before each model call whether a budget allows it; a sandbox server sets it for its sandboxes. See [Budgets](guide/users.md#budgets).'),
  gatewayTimeoutMs: setting('SLIPWAY_GATEWAY_TIMEOUT_SECONDS', '0.2.0', secondsSetting(1, 86_400, 120), 'Seconds after which a request below `/v1` whose run continues is answered with 504.'),
  githubApiUrl: setting('SLIPWAY_GITHUB_API_URL', '0.2.0', urlSetting.default('https://api.github.com').transform(withoutSlash), 'API of GitHub, for the list of repositories; another one for GitHub Enterprise.'),
  repositoryTrust: setting('SLIPWAY_REPOSITORY_TRUST', '0.2.0', repositoryTrust.default('skip'), 'Hooks and agents of a repository without a decision about them: skip leaves them out, ask waits for a decision, always loads them. See [Trust](security.md#trust-in-repositories).'),
  wire: setting('SLIPWAY_WIRE', '0.1.0', wireVersion.default('seed'), 'Events of new conversations: seed has the members and kinds that every client reads, current the newer ones too. The header X-Slipway-Wire goes before it.'),
  hasGateway: setting('SLIPWAY_GATEWAY', '0.2.0', flagSetting(true), "Serve clients of OpenAI's interface at `/v1`. See [Clients of OpenAI's interface](operations.md#clients-of-openais-interface)."),
  hasMcpServer: setting('SLIPWAY_MCP_SERVER', '0.2.0', flagSetting(true), 'Serve MCP clients at `/mcp`: tools that search, read and act on conversations, as far as their key allows. See [MCP server](guide/mcp-server.md).'),
  hasSessionStore: setting('SLIPWAY_SESSION_STORE', '0.2.0', flagSetting(true), 'Store sessions of the Claude Agent SDK as conversations, at `/api/session-store`. See [Session store](guide/session-store.md).'),
  hasCompat: setting('SLIPWAY_COMPAT', '0.2.0', flagSetting(true), 'Serve also what only clients of the reference ask for: applications, the editor, agent profiles, rules, connections and the like.'),
  databaseUrl: setting('SLIPWAY_DATABASE_URL', '0.2.0', databaseSetting, 'PostgreSQL database of conversations, `postgres://user:password@host/database`; see [PostgreSQL](operations.md#postgresql). Without one they are in the data directory.', { isSecret: true }),
  databaseDirectUrl: setting('SLIPWAY_DATABASE_DIRECT_URL', '0.2.0', databaseSetting, 'The same database past a pooler in transaction mode.', { isSecret: true }),
  sharing: {
    isOn: setting('SLIPWAY_SHARED_DATABASE', '0.2.0', flagSetting(false), 'Share the database with other agent servers; needs SLIPWAY_SECRET_KEY, the same on all. See [Several agent servers](scale-agent-servers.md).'),
    leaseMs: setting('SLIPWAY_LEASE_SECONDS', '0.2.0', secondsSetting(2, 600, 10), 'How long a server that shares the database may not answer before others replace it.'),
    peerUrl: setting('SLIPWAY_PEER_URL', '0.2.0', z.url({ protocol: /^http(s|\+unix)?$/, error: 'Should be a URL http://...' }).optional(), 'Address by which other servers on the database reach this one; the address at which it listens unless given.'),
  },
  documentsDirectory: setting('SLIPWAY_DOCUMENTS_DIRECTORY', '0.2.0', z.string().min(1).optional(), 'Directory of files that set settings, profiles and secrets: read at each start, they win over what is stored and are read-only in the server.'),
  webDirectory: setting('SLIPWAY_WEB', '0.1.0', z.string().min(1).optional(), 'Directory of an unpacked web client, which is shown at the address of the server.'),
  staticDirectory: setting('SLIPWAY_STATIC', '0.2.0', z.string().min(1).optional(), 'Directory whose files are served below `/static/` without a key; `/` leads to its `index.html`. One that does not exist counts as none.', { aliases: ['OH_STATIC_FILES_PATH'] }),
  hasConsole: setting('SLIPWAY_CONSOLE', '0.2.0', flagSetting(true), 'Whether the command shows the console at the address of the server, where no web client is.'),
  telemetry: { ...telemetrySettings, ...metricsExportSettings },
}

/** Settings without effect where `SLIPWAY_COMPAT` is off. */
export const compatSettings: readonly string[] = settingRows(settings)
  .filter(({ isCompat }) => isCompat)
  .map(({ name }) => name)

/** A JSON array of rules. */
function parseCommandRules(text: string): readonly CommandRule[] {
  const value = parseJson(text)
  const result = commandRules.safeParse(value)
  if (result.success) return result.data
  const [issue] = validationIssues(result.error, [], value)
  throw new Error(`SLIPWAY_COMMAND_RULES: ${issue?.loc.join('.')}: ${issue?.msg}`)
}

function parsePattern(text: string): RegExp {
  try {
    return new RegExp(text)
  } catch {
    throw new Error('SLIPWAY_ALLOWED_ORIGIN_PATTERN: it is not a regular expression')
  }
}

function parseEditorPath(path: string): string {
  return parsePath(path, 'SLIPWAY_EDITOR_BASE_PATH')
}

/** Without a slash at the end; throws an Error that names the variable. */
export function parsePath(path: string, variable: string): string {
  try {
    return parseBasePath(path)
  } catch {
    throw new Error(`${variable}: its path is not one like /slipway`)
  }
}
