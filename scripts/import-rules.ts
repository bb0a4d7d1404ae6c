/** Who may import whom (ARCHITECTURE.md, "Borders"): the table that check-imports.ts holds the sources to. */
export const packageImports: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  client: ['protocol'],
  storage: ['protocol'],
  http: ['protocol'],
  agent: ['protocol', 'storage'],
  'agent-server': ['protocol', 'storage', 'http', 'agent'],
  'sandbox-server': ['protocol', 'storage', 'http', 'client'],
  cli: ['protocol', 'client', 'agent-server', 'sandbox-server'],
}

/** Parts of a package that may be imported alone: without the schemas, which cost a thread more memory than its work. */
export const allowedSubpaths: readonly string[] = ['@slipway/protocol/message-texts']

/** One library, one place: the folders (from `packages/`) in which a module may be imported. Tests are free. */
export const libraryFolders: Readonly<Record<string, readonly string[]>> = {
  zod: ['protocol/', 'agent-server/src/config/config.ts', 'sandbox-server/src/config/config.ts'],
  fastify: ['http/'],
  '@fastify/': ['http/'],
  ws: ['http/'],
  'http-proxy-3': ['http/'],
  pino: ['http/'],
  'prom-client': ['http/src/telemetry/metrics-registry.ts'],
  '@opentelemetry/': ['http/src/traces'],
  'node:http': ['http/'],
  'node:sqlite': ['storage/src/sqlite/'],
  'node:worker_threads': ['storage/src/sqlite/'],
  'node:child_process': ['agent/src/workspace/workspace.ts', 'sandbox-server/src/backends/process/'],
  dockerode: ['sandbox-server/src/backends/docker/'],
  'client-zip': ['storage/src/conversations/zip.ts'],
  sharp: ['agent/src/images/fit-images.ts'],
  '@lydell/node-pty': ['agent/src/workspace/workspace.ts'],
  '@vscode/ripgrep': ['agent/src/tools/search/ripgrep.ts'],
  '@ai-sdk/': ['agent/src/llm/'],
  '@pydantic/genai-prices': ['agent/src/llm/'],
  '@modelcontextprotocol/sdk': ['agent/src/tools/mcp/servers.ts'],
  'playwright-core': ['agent/src/tools/browser/'],
  unbash: ['agent/src/shell/'],
  yaml: ['agent/src/skills/'],
  commander: ['cli/'],
  'cli-table3': ['cli/'],
  '@clack/prompts': ['cli/'],
}

/** `process.env` is read here and nowhere else. */
export const environmentReaders: readonly string[] = [
  'agent-server/src/main.ts',
  'sandbox-server/src/main.ts',
  'cli/src/context/config.ts',
  'cli/src/main.ts',
]
