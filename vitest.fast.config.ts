import { mergeConfig } from 'vitest/config'
import config from './vitest.config.ts'

/** The tests of every day, below a minute: no servers or programs that a test waits for, no kills, nothing slow. */
export default mergeConfig(config, {
  test: {
    exclude: [
      '**/node_modules/**',
      '**/*.{slow,process,crash,browser,sandbox,docker,python,pg,k8s}.test.ts',
      'conformance/**',
      'fuzz/**',
    ],
    // Files share a process and its modules.
    isolate: false,
    maxWorkers: 3,
  },
})
