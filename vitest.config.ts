import { defineConfig } from 'vitest/config'
import { LongTestsFirst } from './scripts/long-tests-first.ts'

export default defineConfig({
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'examples/**/*.test.ts',
      'scripts/**/*.test.ts',
      'conformance/**/*.test.ts',
      'fuzz/**/*.test.ts',
      'bench/**/*.test.ts',
    ],
    reporters: ['default', './scripts/summary-reporter.ts'],
    sequence: { sequencer: LongTestsFirst },
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
