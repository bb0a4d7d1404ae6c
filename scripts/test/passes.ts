import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { lateProject } from './suites.ts'

// All tests in two passes: the second has the tests of what `.ci/build` makes beside the first. It is waited for
// while it makes progress, at most `maxWaitMs` after the first pass: what is not built then is skipped.

const maxWaitMs = 10 * 60_000

const [resultsFolder = '', ...args] = process.argv.slice(2)
const build = spawn('.ci/build', { stdio: ['ignore', 'ignore', 'inherit'] })
const built = once(build, 'exit')
const projects = [`--project=!${lateProject}`, `--project=${lateProject}`]

let isGreen = await runVitest(projects[0], 'first.json')
const timer = setTimeout(() => {
  console.error(`What is not built ${maxWaitMs / 60_000} minutes after the first pass is skipped.`)
  build.kill()
}, maxWaitMs)
await built
clearTimeout(timer)
const compose = spawnSync('.ci/docker-compose', { encoding: 'utf8' }).stdout.trim()
isGreen = (await runVitest(projects[1], 'second.json', compose)) && isGreen
process.exitCode = isGreen ? 0 : 1

async function runVitest(project: string | undefined, results: string, compose = ''): Promise<boolean> {
  const vitest = [
    process.execPath,
    resolve('node_modules/vitest/vitest.mjs'),
    'run',
    '--passWithNoTests',
    ...args,
  ]
  const isLate = project === projects[1]
  const [program = '', ...rest] = [...(isLate ? ['.ci/cluster', 'run'] : []), ...vitest, String(project)]
  const child = spawn(program, rest, {
    stdio: ['ignore', 'inherit', 'inherit'],
    env: {
      ...process.env,
      SLIPWAY_TEST_RESULTS: resolve(resultsFolder, results),
      ...(compose === '' ? {} : { SLIPWAY_TEST_COMPOSE: compose }),
    },
  })
  const [code] = await once(child, 'exit')
  return code === 0
}
