import type { Reporter, TestCase, TestModule } from 'vitest/node'

/**
 * Ends a run with the line `N passed, N failed` over all its tests, after any other output; also
 * one that a signal cuts, with what it knows then.
 */
export default class SummaryReporter implements Reporter {
  #ended: Record<'passed' | 'failed' | 'skipped' | 'pending', number> = {
    passed: 0,
    failed: 0,
    skipped: 0,
    pending: 0,
  }

  onInit(): void {
    for (const [signal, code] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      process.once(signal, () => {
        process.stdout.write(`${summary(this.#ended)}, interrupted\n`)
        process.exit(code)
      })
    }
  }

  onTestCaseResult(test: TestCase): void {
    this.#ended[test.result().state] += 1
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      const states = [...module.children.allTests()].map((test) => test.result().state)
      for (const state of states) count[state] += 1
      // A file that could not be loaded or set up fails without a failed test.
      if (module.state() === 'failed' && !states.includes('failed')) count.failed += 1
    }
    process.on('exit', () => process.stdout.write(`${summary(count)}\n`))
  }
}

function summary(count: { passed: number; failed: number; skipped: number; pending: number }): string {
  const skipped = count.skipped + count.pending
  return `${count.passed} passed, ${count.failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`
}
