/** What a test file needs beyond Node, by its suffix (`name.<suffix>.test.ts`); the costly ones first. */
export const needs = {
  crash: 'kills of servers in the middle of their work',
  k8s: 'a Kubernetes cluster',
  sandbox: 'bubblewrap',
  docker: 'a container engine',
  browser: 'Chromium',
  python: 'the published Python SDK',
  pg: 'a PostgreSQL server',
  slow: 'time',
  process: 'servers and programs of its own',
} as const

export const suffixes = Object.keys(needs)

/**
 * Files that need what `.ci/build` makes, by the pass that runs them: they begin when it is there. The files
 * of a cluster run one after the other, since they take its node and its spare API server; the others in two
 * workers.
 */
export const latePasses = {
  cluster: { suffixes: ['k8s'], workers: 1 },
  engines: { suffixes: ['docker', 'python'], workers: 2 },
} as const

export type LatePass = keyof typeof latePasses

export const lateSuffixes: readonly string[] = Object.values(latePasses).flatMap(({ suffixes }) => suffixes)

/** Files that take longest: they begin where no earlier run is recorded. */
export const longFiles: readonly string[] = [
  'conformance/sandbox-server/recovery.crash.test.ts',
  'conformance/readme/guides.process.test.ts',
  'conformance/sandbox-server/event-ingest.crash.test.ts',
  'packages/cli/src/session/session.process.test.ts',
  'conformance/contract/contract.crash.test.ts',
  'packages/sandbox-server/src/backends/process/process-backend.sandbox.test.ts',
  'packages/cli/src/session/private-server.process.test.ts',
  'packages/agent/src/tools/browser/tools.browser.test.ts',
  'packages/cli/src/commands/sandboxes.sandbox.test.ts',
  'conformance/sandbox-server/conversations.sandbox.test.ts',
  'conformance/installed/day.process.test.ts',
  'conformance/map/operations/f31-persistence.process.test.ts',
]

/** The projects that `npm test` runs; `npm run test:all` runs the others too. */
export const dailyProjects = ['plain', 'smoke']

/** Globs of the test files with one of the suffixes. */
export function globs(names: readonly string[]): string[] {
  return names.map((name) => `**/*.${name}.test.ts`)
}
