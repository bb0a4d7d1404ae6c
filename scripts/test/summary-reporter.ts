import { writeFileSync } from 'node:fs'
import { relative } from 'node:path'
import type { UserConsoleLog } from 'vitest'
import type { Reporter, TestCase, TestModule } from 'vitest/node'
import {
  countLine,
  describeFailures,
  describeRun,
  type Failure,
  type FileResult,
  type RunResults,
} from './results.ts'

const skippedPrefix = 'SKIPPED: '

/**
 * Ends a run with what was skipped, what took longest, what failed, and as last line `N passed, N failed`
 * over all its tests; also a run that a signal cuts, with what it knows then. Where `SLIPWAY_TEST_RESULTS`
 * names a file, the results are written there instead.
 */
export default class SummaryReporter implements Reporter {
  #ended = { passed: 0, failed: 0, skipped: 0, pending: 0 }
  readonly #skipReasons = new Set<string>()

  onInit(): void {
    for (const [signal, code] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      process.once(signal, () => {
        process.stdout.write(`${countLine(this.#ended)}, interrupted\n`)
        process.exit(code)
      })
    }
  }

  onTestCaseResult(test: TestCase): void {
    this.#ended[test.result().state] += 1
  }

  onUserConsoleLog({ content }: UserConsoleLog): void {
    for (const line of content.split('\n'))
      if (line.startsWith(skippedPrefix)) this.#skipReasons.add(line.slice(skippedPrefix.length))
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0, pending: 0 }
    for (const module of modules) {
      for (const test of module.children.allTests()) count[test.result().state] += 1
      if (hasFailedWhole(module)) count.failed += 1
    }
    const results: RunResults = {
      count,
      failures: modules.flatMap(failuresOf),
      files: modules.map(fileResult),
      skipReasons: [...this.#skipReasons].toSorted(),
    }
    const path = process.env.SLIPWAY_TEST_RESULTS
    if (path !== undefined) writeFileSync(path, JSON.stringify(results))
    else {
      const lines = ['', ...describeRun(results), ...describeFailures(results.failures), countLine(count)]
      process.on('exit', () => process.stdout.write(`${lines.join('\n')}\n`))
    }
  }
}

/** A file that could not be loaded or set up fails without a failed test. */
function hasFailedWhole(module: TestModule): boolean {
  const tests = [...module.children.allTests()]
  return module.state() === 'failed' && !tests.some((test) => test.result().state === 'failed')
}

function failuresOf(module: TestModule): Failure[] {
  if (hasFailedWhole(module)) return [{ ...place(module), test: '' }]
  return [...module.children.allTests('failed')].map(({ fullName }) => ({ ...place(module), test: fullName }))
}

function fileResult(module: TestModule): FileResult {
  return {
    ...place(module),
    tests: [...module.children.allTests()].length,
    skipped: [...module.children.allTests('skipped')].map(({ fullName }) => fullName),
    wallSeconds: round(module.diagnostic().duration / 1000),
    cpuSeconds: round(module.meta().cpuSeconds),
  }
}

function place({ moduleId, project }: TestModule): Pick<FileResult, 'file' | 'project'> {
  return { file: relative(project.vitest.config.root, moduleId), project: project.name }
}

function round<T extends number | undefined>(seconds: T): T | number {
  return seconds === undefined ? seconds : Math.round(seconds * 100) / 100
}
