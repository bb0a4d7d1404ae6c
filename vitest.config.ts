import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { dropEmptySettings } from './packages/shared/src/process/environment.ts'
import { LongTestsFirst } from './scripts/test/long-tests-first.ts'
import {
  costlyPlainFiles,
  globs,
  latePasses,
  lateSuffixes,
  leftToNight,
  suffixes,
} from './scripts/test/suites.ts'

const dependencies = '**/node_modules/**'
const sharedServers = 'conformance/map/**/*.process.test.ts'
const notPlain = globs(['smoke', ...suffixes])
const own = suffixes.filter((suffix) => !lateSuffixes.includes(suffix))
const dependenciesAndNight = (project: string) => [dependencies, ...leftToNight(project, process.env)]

// As the servers do: an empty variable of a test is one that is not set.
dropEmptySettings(process.env)

export default defineConfig({
  test: {
    reporters: ['default', './scripts/test/summary-reporter.ts'],
    sequence: { sequencer: LongTestsFirst },
    setupFiles: ['./scripts/test/cpu-meter.ts'],
    // One more than cores: tests wait for the starts of programs.
    maxWorkers: availableParallelism() + 1,
    // They end what hangs: beside a load a test takes many times longer.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000 } },
    projects: [
      {
        // Files share a process and its modules.
        extends: true,
        test: {
          name: 'plain',
          isolate: false,
          include: ['**/*.test.ts'],
          exclude: [dependencies, ...notPlain, costlyPlainFiles],
        },
      },
      {
        extends: true,
        test: { name: 'smoke', include: globs(['smoke']), exclude: [dependencies] },
      },
      {
        extends: true,
        test: {
          name: 'own',
          include: globs(own),
          exclude: [...dependenciesAndNight('own'), sharedServers, ...globs(lateSuffixes)],
        },
      },
      {
        extends: true,
        test: {
          name: 'costly',
          isolate: false,
          include: [costlyPlainFiles],
          exclude: [dependencies, ...notPlain],
        },
      },
      {
        // Most of their servers run in the process of the tests, which loads them once.
        extends: true,
        test: {
          name: 'map',
          isolate: false,
          include: [sharedServers],
          exclude: dependenciesAndNight('map'),
        },
      },
      ...Object.entries(latePasses).map(([name, { suffixes }]) => ({
        extends: true as const,
        test: { name, include: globs(suffixes), exclude: dependenciesAndNight(name) },
      })),
      ...(process.env.SLIPWAY_TEST_DATABASE_URL === undefined
        ? []
        : [
            {
              // Black-box tests whose answers depend on where the log is, once more on PostgreSQL.
              extends: true as const,
              test: {
                name: 'postgres',
                isolate: false,
                env: { SLIPWAY_TEST_STORAGE: 'postgres' },
                include: [
                  'conformance/agent-server/{conversations,chat-completions,secret-leaks}.test.ts',
                  'conformance/agent-server/{events,runs}/*.test.ts',
                  'conformance/agent-server/runs/sub-agents.crash.test.ts',
                  'conformance/sandbox-server/sandboxes.sandbox.test.ts',
                ],
                exclude: [
                  ...dependenciesAndNight('postgres'),
                  'conformance/agent-server/**/!(sub-agents).*.test.ts',
                ],
              },
            },
          ]),
    ],
  },
})
