/** Who may import whom (ARCHITECTURE.md, "Borders"): the table that check-imports.ts holds the sources to. */
export const packageImports: Readonly<Record<string, readonly string[]>> = {
  shared: [],
  protocol: ['shared'],
  client: ['shared', 'protocol'],
  storage: ['shared', 'protocol'],
  http: ['shared', 'protocol'],
  agent: ['shared', 'protocol', 'storage'],
  'agent-server': ['shared', 'protocol', 'storage', 'http', 'agent'],
  'sandbox-server': ['shared', 'protocol', 'storage', 'http', 'client'],
  console: ['shared', 'protocol', 'client'],
  cli: ['shared', 'protocol', 'client', 'agent-server', 'sandbox-server'],
  examples: ['shared', 'protocol', 'client', 'agent-server', 'sandbox-server', 'cli'],
}

/**
 * Packages that a package may load by `import()` only: `slipway demo` runs an example, and examples use the
 * command's toolkit.
 */
export const lazyImports: Readonly<Record<string, readonly string[]>> = {
  cli: ['examples'],
}

/**
 * Packages that take types alone from the front door of `protocol`, and the files that also need its schemas:
 * to load them takes longer than most commands, and more bytes than a page of the console.
 */
export const withoutSchemas: Readonly<Record<string, readonly string[]>> = {
  cli: ['cli/src/commands/settings/applications.ts'],
  client: [],
  console: [],
}

/**
 * The subpaths by which a package may be imported; the others have one front door (''). A worker thread
 * imports the small ones of `protocol` alone, because the schemas would cost it more memory than its work.
 */
export const frontDoors: Readonly<Record<string, readonly string[]>> = {
  shared: [
    'async',
    'async/read-limited',
    'collections',
    'compile-cache',
    'fs',
    'git',
    'git/testing',
    'json',
    'metrics',
    'network',
    'process',
    'process/testing',
    'redaction',
    'signed-log',
    'text',
    'time',
    'time/testing',
    'tool-files',
    'tool-files/testing',
    'url',
  ],
  protocol: [
    ...['', 'automatic-rejections', 'client', 'confirmation', 'event-text', 'instant'],
    ...['message-texts', 'problem', 'settings', 'visible-text'],
  ],
  storage: ['', 'control-plane', 'maintenance'],
  'agent-server': ['', 'maintenance'],
  'sandbox-server': ['', 'settings'],
  cli: ['toolkit'],
  examples: ['demo', 'demo-sandbox', 'find-processes'],
}

/**
 * One library, one place: the folders (from `packages/`, or `examples/`) in which a module may be imported.
 * Tests are free.
 */
export const libraryFolders: Readonly<Record<string, readonly string[]>> = {
  'lru-cache': ['shared/src/collections/'],
  koffi: ['shared/src/process/'],
  zod: ['protocol/', 'agent-server/src/core/config/settings.ts', 'sandbox-server/src/config/'],
  'find-my-way': ['http/src/core/router.ts'],
  '@fastify/': ['http/'],
  ws: ['http/'],
  'http-proxy-3': ['http/'],
  pino: ['http/'],
  'prom-client': ['shared/src/metrics/', 'http/src/telemetry/'],
  '@opentelemetry/': ['http/src/telemetry/'],
  'node:http': [
    'http/',
    'agent/src/llm/request/loopback-fetch.ts',
    'agent/src/tools/web/',
    'agent-server/src/modules/mcp/mcp-oauth-jobs.ts',
    'shared/src/network/',
  ],
  'node:https': ['agent/src/tools/web/', 'shared/src/network/'],
  // On their own threads: see ReadingThread.
  unpdf: ['agent/src/tools/documents/pdf-pages.ts'],
  'html-to-text': ['agent/src/tools/web/html-text.ts'],
  'node:sqlite': ['storage/src/sqlite/'],
  pg: ['storage/src/postgres/'],
  'node:worker_threads': [
    'shared/src/tool-files/',
    'storage/src/sqlite/',
    'agent/src/tools/core/reading-thread.ts',
    'agent/src/tools/documents/pdf-worker.ts',
    'agent/src/tools/web/',
  ],
  'node:child_process': [
    'agent/src/workspace/workspace.ts',
    // Git, for data directories.
    'shared/src/process/assert-untracked.ts',
    'sandbox-server/src/backends/process/',
    'cli/src/console/',
    'cli/src/session/start-private-server.ts',
    'cli/src/context/edit-file.ts',
    'cli/src/components/',
    // Git.
    'cli/src/here/git.ts',
    // Starts the installed Node.
    'cli/src/main.js',
    // Kills a server.
    'examples/demo/crash.ts',
  ],
  dockerode: ['sandbox-server/src/backends/docker/'],
  '@kubernetes/client-node': ['sandbox-server/src/backends/kubernetes/'],
  yauzl: ['cli/src/parsing/event-files.ts'],
  'client-zip': ['storage/src/conversations/zip.ts'],
  sharp: ['agent/src/images/fit-images.ts'],
  '@lydell/node-pty': ['agent/src/workspace/workspace.ts'],
  '@vscode/ripgrep': ['agent/src/tools/search/ripgrep.ts'],
  '@ai-sdk/': ['agent/src/llm/'],
  aws4fetch: ['agent/src/llm/request/signing-fetch.ts'],
  '@pydantic/genai-prices': ['agent/src/llm/'],
  '@modelcontextprotocol/client': ['agent/src/tools/mcp/', 'cli/src/commands/mcp/'],
  '@modelcontextprotocol/server': ['agent-server/src/modules/mcp-server/', 'cli/src/commands/mcp/'],
  'vscode-jsonrpc': ['agent/src/tools/lsp/'],
  'playwright-core': ['agent/src/tools/browser/'],
  unbash: ['agent/src/shell/'],
  yaml: ['agent/src/skills/', 'agent/src/tools/files/syntax-check.ts'],
  react: ['console/'],
  'react-dom': ['console/'],
  '@tanstack/': ['console/'],
  uplot: ['console/src/panels/'],
  shiki: ['console/src/ui/'],
  anser: ['console/src/ui/'],
  diff: ['console/src/ui/'],
  'react-markdown': ['console/src/ui/'],
  'remark-gfm': ['console/src/ui/'],
  commander: ['cli/'],
  '@agentclientprotocol/sdk': ['cli/src/acp/'],
  'cli-table3': ['cli/'],
  '@clack/prompts': ['cli/'],
  '@decimalturn/toml-patch': ['cli/src/context/config-file.ts'],
}

/**
 * The only file that names git as a program: what it adds keeps programs that a repository names from
 * running.
 */
export const gitFile = 'shared/src/process/git-command.ts'

/** The only file that names Node's compile cache: without a folder it is one that every user may write. */
export const compileCacheFile = 'shared/src/process/compile-cache.js'

/**
 * Where the body of a `Response` is read in one piece. Everything else of servers and commands uses
 * `readText`, `readJson` and `readLimited` of `@slipway/shared/async`, which take a limit.
 */
export const bodyReaders: readonly string[] = [
  'shared/src/async/read-limited.ts',
  // A separate request.
  'shared/src/network/public-fetch.ts',
  // A separate form.
  'sandbox-server/src/sandboxes/sandbox-exec.ts',
  // A package without dependencies, in programs of others: a transcript is as long as it is.
  'session-store/index.js',
]

/** `process.env` is read here and nowhere else. */
export const environmentReaders: readonly string[] = [
  'agent-server/src/main.js',
  'sandbox-server/src/main.js',
  'cli/src/context/config.ts',
  // One variable for the program that it starts.
  'cli/src/console/console-build.ts',
  'cli/src/main.js',
  // Where the cache is, before anything is loaded.
  'shared/src/process/compile-cache.js',
  // One variable for git.
  'shared/src/process/assert-untracked.ts',
  // Before the program can run: the folder of the user's components.
  'cli/src/components/components.js',
]

/**
 * Where variables are read by name beside `readSettings`: a setting is a row, and what reads one elsewhere
 * knows nothing of its default, its other names and `config.toml`.
 */
export const settingReaders: readonly string[] = [
  'protocol/src/core/environment.ts',
  // Numbered names of other servers, and receivers whose members are variables.
  'agent-server/src/core/config/config.ts',
  'agent-server/src/core/config/webhooks.ts',
]

/** Variables that no setting is: of the system, of Node, and of programs that are started. */
export const systemVariables: readonly string[] = [
  ...['PATH', 'HOME', 'TERM', 'VISUAL', 'EDITOR', 'JOURNAL_STREAM', 'PLAYWRIGHT_BROWSERS_PATH'],
  ...['XDG_CACHE_HOME', 'XDG_DATA_HOME', 'NODE_COMPILE_CACHE', 'NODE_USE_ENV_PROXY'],
  ...['CODEX_HOME', 'CLAUDE_CODE_OAUTH_TOKEN', 'GOOGLE_APPLICATION_CREDENTIALS', 'MODEL_PROVIDER'],
  ...['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL'],
  // What a server gives to the programs that it starts.
  'SLIPWAY_SERVER',
]

/** Where a variable has a name that is not written there: that of a row, of a caller, or of a program. */
export const variableLookups: readonly string[] = [
  'agent/src/acp/launch.ts',
  'agent/src/acp/session.ts',
  'agent-server/src/core/config/managed-runtime.ts',
  'agent-server/src/serve.ts',
  'cli/src/commands/settings/config.ts',
  'cli/src/commands/settings/mcp.ts',
  'cli/src/context/check-settings.ts',
  'cli/src/context/config-file.ts',
  'cli/src/context/config.ts',
  'shared/src/process/user-directory.ts',
]

/**
 * Sources that schedule by the clock that is passed in (`@slipway/shared/time`): no timers of Node, no
 * `AbortSignal.timeout`.
 */
export const timerFolders: readonly string[] = [
  'agent/src/agents/',
  'agent/src/conversation/',
  'agent/src/llm/',
  'agent/src/secrets/',
  'agent-server/src/',
  'http/src/',
  'sandbox-server/src/conversations/',
  'sandbox-server/src/ingest/',
  'sandbox-server/src/network/',
  'sandbox-server/src/sandboxes/',
  'sandbox-server/src/start/',
  'shared/src/async/',
]

/** Sources in these folders that use timers of Node, each with its reason. */
export const timerUsers: Readonly<Record<string, string>> = {
  'agent-server/src/compat/applications/': 'waits for programs that it starts',
  'agent-server/src/modules/bash/output-recorder.ts': 'joins the output of programs',
  'agent-server/src/compat/editor/editor.ts': 'waits for a program that it starts',
  'agent-server/src/modules/git/repository-search.ts': 'bounds a request to GitHub',
  'agent-server/src/modules/llm-profiles/': 'bounds requests to providers',
  'agent-server/src/compat/managed-models/': 'bounds a request to a source of keys',
  'agent-server/src/compat/credential-bindings/credential-source.ts':
    'bounds and repeats requests to a source of secrets',
  'agent-server/src/modules/mcp/mcp-oauth-jobs.ts': 'bounds a sign-in, which a person does',
  'http/src/core/http-server.ts': 'looks for idle connections of the kernel while it closes',
  'http/src/telemetry/': 'bounds the last export of a library that has its own timers',
}

/**
 * Files that cut in another way than `@slipway/shared/text`: one that runs in the page, where nothing is
 * imported, one that cuts lists of numbers, and one that makes what is searched for.
 */
export const cutUsers: readonly string[] = [
  'agent/src/tools/browser/page-script.ts',
  'protocol/src/confirmation/sha256.ts',
  'shared/src/redaction/forms.ts',
]

/** Tests that wait for longer than half a second although their suffix does not say so, each with its reason. */
export const waitingTests: Readonly<Record<string, string>> = {
  'scripts/check-waits.test.ts': 'shows waits as texts',
}
