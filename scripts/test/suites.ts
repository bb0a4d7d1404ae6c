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

/** Suffixes of files that need what `.ci/build` makes: they run last. */
export const lateSuffixes = ['k8s', 'docker', 'python']

/** The projects that `npm test` runs; `npm run test:all` runs the others too. */
export const dailyProjects = ['plain', 'smoke']
export const lateProject = 'late'

/** Globs of the test files with one of the suffixes. */
export function globs(names: readonly string[]): string[] {
  return names.map((name) => `**/*.${name}.test.ts`)
}
