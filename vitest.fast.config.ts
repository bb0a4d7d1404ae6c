import { mergeConfig } from 'vitest/config'
import config from './vitest.config.ts'

/** The tests of every day: no kills, no browser, no sandbox, no server of a whole conformance suite. */
export default mergeConfig(config, {
  test: {
    exclude: [
      '**/node_modules/**',
      '**/*.{crash,browser,sandbox,docker,python,pg,k8s}.test.ts',
      'conformance/**',
      'fuzz/**',
    ],
  },
})
