import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { prepareConsole, whyNoConsole } from './console-build.ts'

/**
 * Stands for Vite: counts its runs, and writes a page that names the source; `fail` in the source ends it
 * with 1.
 */
const builder = `
const { mkdirSync, readFileSync, writeFileSync, appendFileSync } = require('node:fs')
const out = process.argv[process.argv.indexOf('--outDir') + 1]
const source = readFileSync('src/main.ts', 'utf8')
appendFileSync('../runs', 'x')
if (process.env.NODE_ENV !== 'production') { console.error('not for production'); process.exit(1) }
if (source === 'fail') { console.error('main.ts: unexpected token'); process.exit(1) }
mkdirSync(out + '/assets', { recursive: true })
writeFileSync(out + '/assets/index-Ab12Cd34.js', source.repeat(200))
writeFileSync(out + '/index.html', source)
`

async function createClone() {
  const root = await mkdtemp(join(tmpdir(), 'slipway-clone-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const files = {
    'packages/console/package.json': '{}',
    'packages/console/vite.config.ts': '',
    'packages/console/src/main.ts': 'first',
    'packages/console/node_modules/vite/package.json': '{ "name": "vite" }',
    'packages/console/node_modules/vite/bin/vite.js': builder,
  }
  for (const [name, text] of Object.entries(files)) {
    await mkdir(join(root, name, '..'), { recursive: true })
    await writeFile(join(root, name), text)
  }
  const cacheDirectory = join(root, 'cache')
  let builds = 0
  const prepare = () =>
    prepareConsole({
      packagesDirectory: join(root, 'packages'),
      cacheDirectory,
      onBuild: () => void builds++,
    })
  const runs = async () => (await readFile(join(root, 'packages/runs'), 'utf8').catch(() => '')).length
  const change = (text: string) => writeFile(join(root, 'packages/console/src/main.ts'), text)
  return { root, cacheDirectory, prepare, runs, change, builds: () => builds }
}

test('the console of a clone is built once for each state of its sources', async () => {
  const clone = await createClone()
  const first = await clone.prepare()
  expect(await readFile(join(first ?? '', 'index.html'), 'utf8')).toBe('first')
  const zipped = await readFile(join(first ?? '', 'assets/index-Ab12Cd34.js.gz'))
  expect(gunzipSync(zipped).toString()).toBe('first'.repeat(200))
  expect(await clone.prepare()).toBe(first)
  expect([await clone.runs(), clone.builds()]).toEqual([1, 1])
  await clone.change('second')
  const second = await clone.prepare()
  expect(await readFile(join(second ?? '', 'index.html'), 'utf8')).toBe('second')
  await clone.change('first')
  expect(await clone.prepare()).toBe(first)
  expect(await clone.runs()).toBe(2)
})

test('servers that start at once get one whole build and leave no drafts', async () => {
  const clone = await createClone()
  const program = `
    const { prepareConsole } = await import(${JSON.stringify(join(import.meta.dirname, 'console-build.ts'))})
    console.log(await prepareConsole({ packagesDirectory: process.argv[1], cacheDirectory: process.argv[2] }))`
  const args = ['--input-type=module', '-e', program, join(clone.root, 'packages'), clone.cacheDirectory]
  const { execFile } = await import('node:child_process')
  const start = () =>
    new Promise<string>((done, fail) =>
      execFile(process.execPath, args, (error, stdout) =>
        error === null ? done(stdout.trim()) : fail(error),
      ),
    )
  const directories = await Promise.all([start(), start(), start()])
  expect(new Set(directories).size).toBe(1)
  expect(await readFile(join(directories[0] ?? '', 'index.html'), 'utf8')).toBe('first')
  expect(await readdir(clone.cacheDirectory)).toHaveLength(1)
}, 120_000)

test('a failed build says why and leaves nothing; the next start tries again', async () => {
  const clone = await createClone()
  await clone.change('fail')
  await expect(clone.prepare()).rejects.toThrow('main.ts: unexpected token')
  expect(await readdir(clone.cacheDirectory)).toEqual([])
  await clone.change('third')
  expect(await clone.prepare()).toContain(clone.cacheDirectory)
})

test('a released package has its build; without either there is no console', async () => {
  const root = await mkdtemp(join(tmpdir(), 'slipway-released-'))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  expect(await prepareConsole({ packagesDirectory: root })).toBeUndefined()
  await mkdir(join(root, 'console/dist'), { recursive: true })
  await writeFile(join(root, 'console/dist/index.html'), '')
  expect(await prepareConsole({ packagesDirectory: root })).toBe(join(root, 'console/dist'))
})

test('a clone without the libraries of tests has no console, and says why', async () => {
  const [whole, without] = [await createClone(), await createClone()]
  expect(whyNoConsole(join(whole.root, 'packages'))).toBeUndefined()
  const packages = join(without.root, 'packages')
  await rm(join(packages, 'console/node_modules'), { recursive: true })
  expect(whyNoConsole(packages)).toContain('--omit=dev')
  await rm(join(packages, 'console/vite.config.ts'))
  expect(whyNoConsole(packages)).toBeUndefined()
})
