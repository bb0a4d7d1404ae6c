/** Who may import whom (ARCHITECTURE.md, "Borders"): the table that check-imports.ts holds the sources to. */
export const packages: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  client: ['protocol'],
  storage: ['protocol'],
  http: ['protocol'],
  'agent-server': ['protocol', 'storage', 'http'],
  cli: ['protocol', 'client', 'agent-server'],
}

/** Parts of a package that may be imported alone: without the schemas, which cost a thread more memory than its work. */
export const sideDoors: readonly string[] = ['@slipway/protocol/message-texts']

/** One library, one place: the folders (from `packages/`) in which a module may be imported. Tests are free. */
export const libraries: Readonly<Record<string, readonly string[]>> = {
  zod: ['protocol/', 'agent-server/src/config.ts'],
  fastify: ['http/'],
  '@fastify/': ['http/'],
  ws: ['http/'],
  pino: ['http/'],
  'node:http': ['http/'],
  'node:sqlite': ['storage/src/sqlite/'],
  'node:worker_threads': ['storage/src/sqlite/'],
  'node:child_process': [],
  commander: ['cli/'],
  'cli-table3': ['cli/'],
}

/** `process.env` is read here and nowhere else. */
export const environment: readonly string[] = [
  'agent-server/src/main.ts',
  'cli/src/config.ts',
  'cli/src/main.ts',
]
