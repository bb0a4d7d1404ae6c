import type { Reporter, TestModule } from 'vitest/node'

/** Ends a run with the line `N passed, N failed` over all its tests, after any other output. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      const states = [...module.children.allTests()].map((test) => test.result().state)
      for (const state of states) count[state] += 1
      // A file that could not be loaded or set up fails without a failed test.
      if (module.state() === 'failed' && !states.includes('failed')) count.failed += 1
    }
    const skipped = count.skipped + count.pending
    process.on('exit', () => {
      process.stdout.write(
        `${count.passed} passed, ${count.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`,
      )
    })
  }
}
