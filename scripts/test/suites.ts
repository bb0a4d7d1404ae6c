/** What a test file needs beyond Node, by its suffix (`name.<suffix>.test.ts`); the costly ones first. */
export const needs = {
  crash: 'kills of servers in the middle of their work',
  k8s: 'a Kubernetes cluster',
  sandbox: 'bubblewrap',
  docker: 'a container engine',
  browser: 'Chromium',
  python: 'the published Python SDK',
  model: 'a real model server',
  pg: 'a PostgreSQL server',
  slow: 'time',
  process: 'its own servers and programs',
} as const

export const suffixes = Object.keys(needs)

/**
 * Files that need what `.ci/build` makes, by the pass that runs them: they begin when it is there. The files
 * of a cluster run one after the other, since they take its node and its spare API server; the others too,
 * since they end long before the first pass.
 */
export const latePasses = {
  cluster: { suffixes: ['k8s'], workers: 1 },
  engines: { suffixes: ['docker', 'python', 'model'], workers: 1 },
} as const

export type LatePass = keyof typeof latePasses

export const lateSuffixes: readonly string[] = Object.values(latePasses).flatMap(({ suffixes }) => suffixes)

/** Files that take longest: they begin where no earlier run is recorded. */
export const longFiles: readonly string[] = [
  'conformance/sandbox-server/recovery.crash.test.ts',
  'packages/cli/src/session/session.process.test.ts',
  'conformance/sandbox-server/event-ingest.crash.test.ts',
  'conformance/agent-server/runs/recovery.crash.test.ts',
  'conformance/contract/contract.crash.test.ts',
  'packages/agent/src/tools/browser/tools.browser.test.ts',
  'conformance/sandbox-server/conversations.sandbox.test.ts',
  'conformance/sandbox-server/container-engines.docker.test.ts',
  'packages/cli/src/session/private-server.process.test.ts',
  'packages/sandbox-server/src/backends/process/process-backend.sandbox.test.ts',
  'packages/cli/src/commands/sandboxes/sandboxes.sandbox.test.ts',
]

interface NightlyFile {
  /** From the root of the repository. */
  readonly file: string
  /** Where other projects run the file too, the one that leaves it to the night. */
  readonly project?: string
  readonly why: string
}

/**
 * What a whole `npm run test:all` leaves to `.ci/nightly`, so that it stays below 25 minutes: what shows
 * least per CPU second. A file that a command names runs at any time.
 */
export const nightlyFiles: readonly NightlyFile[] = [
  {
    file: 'conformance/sandbox-server/disk-reserve.sandbox.test.ts',
    why: 'a full disk of a host: disk-guard.test has the reserve on a clock of the test',
  },
  {
    file: 'conformance/console/secrets.browser.test.ts',
    why: 'what pages of the console show and keep: both secret-leaks have the answers, pages.browser the key that is stored nowhere',
  },
  {
    file: 'conformance/agent-server/runs/busy-server.process.test.ts',
    why: 'answers beside 200 runs: registry.test has the limit of concurrent runs, and the benchmark `crowd` measures them',
  },
  {
    file: 'conformance/sandbox-server/container-tenancy.docker.test.ts',
    why: 'walls between containers: docker-backend.docker has the networks of an engine, network-walls.sandbox the walls of processes',
  },
  {
    file: 'conformance/agent-server/runs/sub-agents.crash.test.ts',
    why: 'kills in tasks: runs/recovery.crash has those in tools and models, sub-agents.test the tasks',
  },
  {
    file: 'conformance/sandbox-server/repository-scripts.sandbox.test.ts',
    why: 'scripts of a repository in whole starts: prepare-workspace.process has the scripts and their consent',
  },
  {
    file: 'packages/sandbox-server/src/ingest/event-pull.process.test.ts',
    why: 'real agent servers without webhooks: event-pull.test has the order and the cursor, event-ingest.crash the kills',
  },
  {
    file: 'conformance/interrupts/ctrl-c.crash.test.ts',
    why: 'interrupts of all programs: interruption.process of the tests, run.process and session.process have one each',
  },
  {
    file: 'packages/storage/src/postgres/connection.pg.test.ts',
    why: 'a pooler and TLS before the database: storage.pg has the same statements without them',
  },
  {
    file: 'packages/agent/src/conversation/loop/stream-faults.slow.test.ts',
    why: 'runs whose streams break: llm/models/stream-faults.slow has the streams',
  },
  {
    file: 'packages/agent/src/conversation/view/valid-requests.slow.test.ts',
    why: 'random histories: round-trip.test and refused-requests.slow have each kind of message',
  },
  {
    file: 'packages/http/src/sockets/stalled-reader.slow.test.ts',
    why: '`stalled-readers` of contract.crash has the promise',
  },
  {
    file: 'packages/agent/src/tools/terminal/waiting-programs.process.test.ts',
    why: '36 programs that wait for input: terminal.process has the rule with a few of them',
  },
  {
    file: 'packages/agent/src/tools/terminal/public-cases.process.test.ts',
    why: 'cases of other products: terminal.process has their kinds',
  },
  {
    file: 'conformance/agent-server/workspace-pages.browser.test.ts',
    why: 'pages of a workspace in frames: applications.browser has the walls between origins in a browser',
  },
  {
    file: 'conformance/agent-server/events/webhooks.crash.test.ts',
    why: 'kills of a sender: webhooks.process has retries and the cursor, event-ingest.crash kills of the receiver',
  },
  {
    file: 'conformance/agent-server/runs/limits.crash.test.ts',
    why: 'kills of runs with limits: the tests of conversation/limits have the limits, runs/recovery.crash the kills',
  },
  {
    file: 'packages/sandbox-server/src/sandboxes/sandboxes.sandbox.test.ts',
    why: 'agent servers in sandboxes: process-backend.sandbox and conversations.sandbox have their starts and ends',
  },
  {
    file: 'conformance/readme/readme.sandbox.test.ts',
    why: 'the walk through the sandbox server: `.ci/run` runs its demo',
  },
  {
    file: 'conformance/agent-server/postgres.pg.test.ts',
    why: 'one server on PostgreSQL: several-servers.pg and takeover.crash.pg have more of them, faults.pg the lost database',
  },
  {
    file: 'conformance/agent-server/mcp-conformance.process.test.ts',
    why: 'the official suites and the Inspector, 30 s; mcp-server.test has the official client in both eras',
  },
  {
    file: 'conformance/console/panels.browser.test.ts',
    why: 'the panels of a conversation: conversation.browser has the pages that open them',
  },
  {
    file: 'packages/storage/src/postgres/shared-storage.pg.test.ts',
    why: 'the contract of storage.pg once more, on a shared database: several-servers.pg and leases.pg have what sharing changes',
  },
  {
    file: 'conformance/map/extensions/f28-applications.process.test.ts',
    why: 'applications by the names of the map: applications.process has them',
  },
  {
    file: 'conformance/map/extensions/f29-application-bridge.process.test.ts',
    why: 'applications by the names of the map: applications.browser has their walls',
  },
  {
    file: 'conformance/sandbox-server/repositories.sandbox.test.ts',
    why: 'repositories in sandboxes: prepare-workspace.process has clones and tokens, git/handlers.test the providers',
  },
  {
    file: 'conformance/sandbox-server/quota.sandbox.test.ts',
    why: 'quotas of whole servers: quota.test has the rules',
  },
  {
    file: 'packages/agent/src/tools/mcp/probe.process.test.ts',
    why: 'trials of MCP servers: mcp/servers.process has the connections, f19-mcp the route',
  },
  {
    file: 'packages/agent/src/tools/browser/hostile-pages.browser.test.ts',
    why: 'pages that keep a processor busy, for minutes of its time: tools.browser has those that hang, lie and close themselves',
  },
  {
    file: 'conformance/clients/npm-packages.browser.test.ts',
    why: 'our packages in bundlers and a browser: f34-typescript-client and web-client.browser have the clients',
  },
  {
    file: 'packages/storage/src/postgres/control-plane/faults.pg.test.ts',
    why: 'lost answers of the control plane: postgres/faults.pg has those of the log, on the same connection',
  },
  {
    file: 'packages/storage/src/sqlite/damaged-pages.slow.test.ts',
    why: 'damage of every page: damage.slow has each kind of damage',
  },
  {
    file: 'conformance/map/operations/f31-persistence.process.test.ts',
    why: 'kills and restarts by the names of the map: contract.crash, storage.crash and takeover.crash.pg have the promises',
  },
  {
    file: 'conformance/sandbox-server/disk-limit.sandbox.test.ts',
    why: 'full disks of real sandboxes: disk-guard.test has the limits, process-backend.sandbox the file systems',
  },
  {
    file: 'packages/agent/src/conversation/loop/long-run.slow.test.ts',
    why: 'runs of 250 steps in five languages: condenser and context-window tests have their limits',
  },
  {
    file: 'conformance/agent-server/runs/interleaved-answers.slow.test.ts',
    why: 'parts of answers in all orders: round-trip.test has the messages that come of them',
  },
  {
    file: 'conformance/sandbox-server/docker-recovery.docker.test.ts',
    why: 'the kills of sandbox-server/recovery.crash on a second backend',
  },
  {
    file: 'packages/sandbox-server/src/backends/docker/restart.docker.test.ts',
    why: 'restarts of an engine, which the contract of the backend replaces by answers of one',
  },
  {
    file: 'packages/sandbox-server/src/backends/docker/podman.docker.test.ts',
    why: 'the contract of docker-backend.docker on a second engine',
  },
  {
    file: 'conformance/sandbox-server/compose.docker.test.ts',
    why: 'an installation by Docker Compose: docker-backend.docker has the engine, replicas.pg the servers behind one address',
  },
  {
    file: 'conformance/sandbox-server/kubernetes.k8s.test.ts',
    why: 'conversations on a cluster: kubernetes-backend.k8s has the contract of the backend on a real one',
  },
  {
    file: 'conformance/proxies/documented-proxies.browser.test.ts',
    why: 'nginx and Caddy for two minutes: reverse-proxy.sandbox has a simple proxy, socket-server.test the pings',
  },
  {
    file: 'packages/sandbox-server/src/backends/kubernetes/copy-files.k8s.test.ts',
    why: 'the end of a server that copies a Pod: kubernetes-backend.k8s has the copies',
  },
  {
    file: 'packages/sandbox-server/src/backends/kubernetes/agent-sandbox.k8s.test.ts',
    why: 'the contract of kubernetes-backend.k8s with an object that makes the Pod: inspect.test and open-backends.test have the words',
  },
  {
    file: 'packages/sandbox-server/src/start/continue-elsewhere.process.test.ts',
    why: 'starts with the log of a sandbox that is gone: fork.process gives an agent server a log in the same way',
  },
  {
    file: 'packages/sandbox-server/src/backends/process/pause-above.sandbox.test.ts',
    why: 'real writers: disk-guard.test has them on a clock of the test, process-backend.sandbox freezes to copy',
  },
  {
    file: 'conformance/sandbox-server/chart.k8s.test.ts',
    why: 'an installation by Helm, on the same backend',
  },
  {
    file: 'packages/sandbox-server/src/sandboxes/lifetimes/disk-limits.sandbox.test.ts',
    why: '4 GB of real writes: disk-guard.test has writers of all speeds on a clock of the test',
  },
  {
    file: 'conformance/sandbox-server/lifecycle.sandbox.test.ts',
    why: 'archives and forks of whole servers: fork.process has the starts, process-backend.sandbox the files',
  },
  {
    file: 'conformance/sandbox-server/stuck-sandboxes.sandbox.test.ts',
    why: 'waits for sandboxes that do not start: status-reason.test has the words for each detail',
  },
  {
    file: 'conformance/sandbox-server/chart-values.k8s.test.ts',
    why: 'what Helm renders of twelve sets of values: chart-schema.test has the schema of the values',
  },
  {
    file: 'conformance/clients/atif.python.test.ts',
    why: 'two validators of ATIF, whose environment takes minutes: the tests of the format have its members',
  },
  {
    file: 'conformance/clients/openapi-documents.python.test.ts',
    why: 'a second generator of clients, of the documents that openapi-documents.process reads',
  },
  {
    file: 'conformance/sandbox-server/sandboxes.sandbox.test.ts',
    project: 'postgres',
    why: 'a second storage: storage.pg and replicas.pg have what depends on it',
  },
  {
    file: 'conformance/repositories/hostile.sandbox.test.ts',
    why: 'all attacks in all ways of one user: both hostile-repository.process, repository-view.process and repository-consent.process have them one by one',
  },
  {
    file: 'conformance/repositories/friendly.sandbox.test.ts',
    why: 'the same ways with a repository that attacks nothing: mcp/servers.process, fetch-source.process and app-here.sandbox have them',
  },
  {
    file: 'conformance/agent-server/rolling-restart.process.test.ts',
    why: 'requests while six servers restart one after the other: readiness.test has the order of an end, replicas.pg restarts behind a proxy',
  },
  {
    file: 'conformance/sandbox-server/tenancy-random.sandbox.test.ts',
    why: 'random requests: tenancy.sandbox has those of each route',
  },
  {
    file: 'conformance/agent-server/runs/model-providers.test.ts',
    project: 'postgres',
    why: 'a second storage, on which providers do not depend',
  },
  {
    file: 'conformance/agent-server/runs/branches-and-goals.test.ts',
    project: 'postgres',
    why: 'a second storage: branches and goals are read from events, and storage.pg has the log',
  },
  {
    file: 'conformance/installed/day.process.test.ts',
    why: 'a day with the installed command: first-minutes.process installs it, and starts both servers and demos',
  },
  {
    file: 'conformance/readme/guides.process.test.ts',
    why: 'the commands of the guides, one after the other: readme.process follows the README, the rest are tests of commands',
  },
  {
    file: 'conformance/readme/guides.sandbox.test.ts',
    why: 'the commands of the guides that need a sandbox server',
  },
  {
    file: 'conformance/sandbox-server/event-backlog.crash.test.ts',
    why: 'the memory of a server with 190 MiB of events to deliver: event-ingest.crash has the deliveries',
  },
  {
    file: 'conformance/agent-server/runs/resting-runs.process.test.ts',
    why: 'the memory of 200 runs that wait: the benchmark `crowd` measures it',
  },
  {
    file: 'conformance/agent-server/events/slow-disk.process.test.ts',
    why: 'one slow disk more: `slow-disk` of contract.crash has the promise, also after a kill',
  },
  {
    file: 'conformance/clients/cloud-workspace.python.test.ts',
    why: 'the SDK against a sandbox server: sandbox-ports.test and control-plane-fetch.test have what it needs, f33-python-sdk.python the SDK',
  },
  {
    file: 'conformance/clients/openai-clients.python.test.ts',
    why: 'Python clients of `/v1`, which import for minutes: openai-clients.test has two of npm, responses.test the interface',
  },
  {
    file: 'conformance/clients/session-store.python.test.ts',
    why: 'a suite of others in Python, which imports for many seconds: session-store.test has the suite for TypeScript',
  },
  {
    file: 'conformance/clients/automation.python.test.ts',
    why: 'a scheduler that waits for the next minute: service-keys.test and settings-handlers.test have what it asks',
  },
  {
    file: 'conformance/clients/web-client-cloud.browser.test.ts',
    why: 'the web client against a sandbox server: web-client.browser has the client, own-organization-handlers.test and conversations.sandbox what it asks',
  },
  {
    file: 'conformance/clients/openapi-documents.process.test.ts',
    why: 'validators and generators of others: wire-hash.test and the check say when a document changes',
  },
  {
    file: 'conformance/clients/acpx.process.test.ts',
    why: 'a published client that starts itself for each step: acp.process has the client of the library',
  },
  {
    file: 'packages/cli/src/acp/acp-faults.process.test.ts',
    why: 'kills, large messages and second editors: acp.process has the protocol, session.process the private server that dies',
  },
  {
    file: 'fuzz/endurance/endure.crash.test.ts',
    why: 'random conversations: the night has 2,000, refused-requests.slow has each kind of refusal',
  },
  {
    file: 'conformance/sandbox-server/container-engines.docker.test.ts',
    why: 'conversations on container engines: docker-backend.docker has the contract of the backend on a real engine',
  },
  {
    file: 'conformance/agent-server/runs/run.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'conformance/agent-server/runs/pause-interrupt-fork.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'conformance/agent-server/runs/sub-agents.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'conformance/agent-server/events/recorded-logs.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'conformance/agent-server/secret-leaks.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'conformance/agent-server/chat-completions.test.ts',
    project: 'postgres',
    why: 'a second storage, of which it asks nothing that storage.pg and events/search do not',
  },
  {
    file: 'fuzz/agent-server/openapi.slow.test.ts',
    why: 'random requests: ten of each route show little, and the night sends 200',
  },
  {
    file: 'fuzz/sandbox-server/openapi.sandbox.test.ts',
    why: 'random requests: ten of each route show little, and the night sends 200',
  },
  {
    file: 'fuzz/agent-server/run-loop.crash.test.ts',
    why: 'random sequences: conversation.property.slow has the loop without a server',
  },
  {
    file: 'packages/agent/src/tools/mcp/published-servers.process.test.ts',
    why: 'servers of others from two registries, on the way of mcp/conformance.process',
  },
  { file: 'scripts/mutation/interruption.process.test.ts', why: 'ends of a program that runs at night' },
  { file: 'bench/interruption.process.test.ts', why: 'ends of a program that runs at night' },
  {
    file: 'examples/demo-sandbox/demo.sandbox.test.ts',
    why: 'ends of the demo, which `.ci/run` runs beside the tests',
  },
]

/** What a project leaves out of this run. */
export function leftToNight(project: string, env: Readonly<Record<string, string | undefined>>): string[] {
  if (env.SLIPWAY_TEST_GATE !== '1') return []
  return nightlyFiles.flatMap((one) =>
    one.project === undefined || one.project === project ? [one.file] : [],
  )
}

/**
 * Plain files that `npm test` leaves to `npm run test:all`, so that it stays below 300 seconds of CPU time:
 * black-box tests of each feature, which the unit tests, `conformance/wire` and the smokes have in part.
 */
export const costlyPlainFiles = 'conformance/{agent-server,clients,map}/**/*.test.ts'

/** The projects that `npm test` runs; `npm run test:all` runs the others too. */
export const dailyProjects = ['plain', 'smoke']

/** Globs of the test files with one of the suffixes. */
export function globs(names: readonly string[]): string[] {
  return names.map((name) => `**/*.${name}.test.ts`)
}
