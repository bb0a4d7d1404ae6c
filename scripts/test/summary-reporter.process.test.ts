import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const vitest = resolve('node_modules/vitest/vitest.mjs')

/** Starts vitest on one file of tests. */
async function startVitest(source: string, ...options: string[]) {
  // Below the repository, so that the file finds vitest.
  const directory = await mkdtemp(resolve('node_modules/.reporter-test-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  await writeFile(join(directory, 'one.test.ts'), source)
  const reporter = resolve('scripts/test/summary-reporter.ts')
  const config = `export default { root: '.', test: { include: ['one.test.ts'], exclude: [], reporters: ['default', ${JSON.stringify(reporter)}] } }`
  await writeFile(join(directory, 'vitest.config.ts'), config)
  const { SLIPWAY_TEST_RESULTS: _, ...env } = process.env
  const args = [vitest, 'run', '--no-color', ...options]
  const child = spawn(process.execPath, args, { cwd: directory, detached: true, env })
  // Errors have their own pipe, which may be read later.
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  child.stderr.resume()
  return { child, ended: once(child, 'close'), output: () => output }
}

test('the last line is the summary of all tests', { timeout: 60_000 }, async () => {
  const source = `import { test } from 'vitest'
    test('a', () => {})
    test('b', () => { throw new Error('no') })
    test.skip('c', () => {})`
  const { ended, output } = await startVitest(source)
  expect((await ended)[0]).toBe(1)
  expect(output()).toMatch(/\n1 passed, 1 failed, 1 skipped\n$/)
})

test('the command for failures repeats those alone, also in suites', { timeout: 60_000 }, async () => {
  const source = `import { describe, test } from 'vitest'
    describe('one', () => {
      test('fails', () => { throw new Error('no') })
      test('holds', () => {})
    })
    describe('other', () => { test('fails', () => {}) })`
  const { ended, output } = await startVitest(source)
  await ended
  const [, pattern = ''] = /^Repeat: .* -t '(.*)'$/m.exec(output()) ?? []
  const repeated = await startVitest(source, '-t', pattern)
  await repeated.ended
  expect(repeated.output()).toMatch(/\n0 passed, 1 failed, 2 skipped\n$/)
})

test.each(['SIGINT', 'SIGTERM'] as const)(
  'after %s it says what has passed',
  { timeout: 60_000 },
  async (signal) => {
    const source = `import { test } from 'vitest'
    test('a', () => {})
    test('b', () => new Promise((done) => setTimeout(done, 50_000)), 60_000)`
    const { child, ended, output } = await startVitest(source)
    await expect.poll(output, { timeout: 30_000 }).toContain('RUN')
    await new Promise((done) => setTimeout(done, 3_000))
    if (child.pid !== undefined) process.kill(-child.pid, signal)
    await ended
    expect(output()).toMatch(/\n1 passed, 0 failed, interrupted\n/)
  },
)
