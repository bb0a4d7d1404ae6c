import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

const script = `import { startCompileCache } from ${JSON.stringify(resolve(import.meta.dirname, 'compile-cache.js'))}
import { getCompileCacheDir } from 'node:module'
startCompileCache()
console.log(getCompileCacheDir() ?? 'none')`

let root: string
let home: string
let cache: string

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'slipway-cache-')))
  home = join(root, 'home')
  cache = join(home, '.cache/slipway/compile-cache')
  mkdirSync(join(root, 'tmp'))
  mkdirSync(home)
})

afterEach(() => rmSync(root, { recursive: true }))

/** Where a program keeps its compiled code. */
function start(env: Record<string, string> = {}): string {
  const environment = { HOME: home, TMPDIR: join(root, 'tmp'), ...env }
  const args = ['--input-type=module', '-e', script]
  return execFileSync(process.execPath, args, { env: environment, encoding: 'utf8', stdio: 'pipe' }).trim()
}

test('the folder is the own one of the user, below the cache folder that the environment names', () => {
  expect(start()).toMatch(new RegExp(`^${cache}/`))
  expect(lstatSync(cache).mode & 0o7777).toBe(0o700)
  expect(start()).toMatch(new RegExp(`^${cache}/`))
  const other = join(root, 'other')
  expect(start({ XDG_CACHE_HOME: other })).toMatch(new RegExp(`^${other}/slipway/compile-cache/`))
  expect(start({ NODE_COMPILE_CACHE: join(root, 'chosen') })).toMatch(new RegExp(`^${root}/chosen/`))
  expect(readdirSync(join(root, 'tmp'))).toEqual([])
})

test.for([
  ['others may write the folder', () => chmodSync(cache, 0o702)],
  ['its group may write the folder', () => chmodSync(cache, 0o720)],
  ['others may replace the folder', () => chmodSync(join(home, '.cache'), 0o777)],
  ['others may replace a folder above', () => chmodSync(root, 0o777)],
  [
    'the folder is a link',
    () => {
      rmSync(cache, { recursive: true })
      mkdirSync(join(root, 'foreign'), { mode: 0o700 })
      symlinkSync(join(root, 'foreign'), cache)
    },
  ],
] as const)('there is no cache where %s', ([, spoil]) => {
  start()
  spoil()
  expect(start()).toBe('none')
  expect(readdirSync(join(root, 'tmp'))).toEqual([])
})

test('there is no cache and no error without a home', () => {
  for (const HOME of ['/nonexistent', '/dev/null', '/proc', 'relative'])
    expect([HOME, start({ HOME })]).toEqual([HOME, 'none'])
  expect(readdirSync(join(root, 'tmp'))).toEqual([])
})

test.skipIf(process.getuid?.() !== 0)('there is no cache where the folder is of another user', () => {
  start()
  execFileSync('chown', ['65534', cache])
  expect(start()).toBe('none')
  execFileSync('chown', ['0', cache])
  execFileSync('chown', ['65534', join(home, '.cache')])
  expect(start()).toBe('none')
})
