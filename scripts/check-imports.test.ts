import { expect, test } from 'vitest'
import { findViolations, parseImports, readSources } from './check-imports.ts'

const source = (file: string, text: string) => ({ file, text, imports: parseImports(text) })

test('every form of import is found, types and dynamic ones too', () => {
  const text = `import type { A } from './a.ts'\nimport {\n  b,\n  c,\n} from '@slipway/x'\nexport { d } from './d.ts'\nimport './e.ts'\nconst f = await import('./f.ts')\n`
  expect(parseImports(text)).toEqual(['./a.ts', '@slipway/x', './d.ts', './e.ts', './f.ts'])
})

test.each([
  [
    'an upward import',
    'protocol/src/a.ts',
    `import { x } from '@slipway/storage'`,
    'protocol may import shared',
  ],
  [
    'another package by path',
    'http/src/a.ts',
    `import { x } from '../../storage/src/b.ts'`,
    'another package by path',
  ],
  [
    'a path past a front door',
    'http/src/a.ts',
    `import { x } from '@slipway/protocol/src/event.ts'`,
    'past the front door',
  ],
  ['its own front door', 'http/src/a.ts', `import { x } from './index.ts'`, 'its own front door'],
  [
    'a library outside its place',
    'cli/src/a.ts',
    `import { WebSocketServer } from 'ws'`,
    'allowed only in http/',
  ],
  [
    'SQL outside storage',
    'agent-server/src/a.ts',
    `import { DatabaseSync } from 'node:sqlite'`,
    'allowed only in storage/src/sqlite/',
  ],
  [
    'an example outside of import()',
    'cli/src/a.ts',
    `import { demoCommand } from '@slipway/examples/demo'`,
    'cli may import',
  ],
  ['a test from a source', 'http/src/a.ts', `import { x } from './b.test.ts'`, 'only tests may import tests'],
  [
    'a fake of another package from a source',
    'http/src/a.ts',
    `import { FakeClock } from '@slipway/shared/time/testing'`,
    'only tests may import tests',
  ],
  [
    'an error with another name',
    'http/src/a.ts',
    'class Left extends Error {}',
    'an error is called LeftError',
  ],
  [
    'an error without a name',
    'http/src/a.ts',
    'class LeftError extends Error {\n}',
    'an error sets its name',
  ],
  ['an answer without a limit', 'agent/src/a.ts', 'const text = await response.text()', 'reads a whole body'],
  [
    'git outside of its door',
    'agent-server/src/a.ts',
    `const exit = await workspace.run('git', ['status'])`,
    'starts git',
  ],
  ['git by a shell', 'cli/src/a.ts', "exec('git -C . status')", 'starts git'],
  ['git as a constant', 'agent/src/a.ts', "const program = 'git'", 'starts git'],
  [
    'a timer where a clock is passed in',
    'http/src/a.ts',
    'const timer = setTimeout(() => {}, 5)',
    'takes a timer of Node',
  ],
  [
    'a sleep where a clock is passed in',
    'http/src/a.ts',
    `import { setImmediate, setTimeout as sleep } from 'node:timers/promises'`,
    'takes a timer of Node',
  ],
  [
    'a limit where a clock is passed in',
    'http/src/a.ts',
    'const limit = AbortSignal.timeout(5)',
    'takes a timer of Node',
  ],
  [
    'a module in the core',
    'agent-server/src/core/a.ts',
    `import type { Bash } from '../modules/bash/module.ts'`,
    'the core imports no module',
  ],
  [
    'the inside of another module',
    'agent-server/src/modules/git/a.ts',
    `import { files } from '../files/archive.ts'`,
    'the inside of another module',
  ],
  [
    'compat in a module',
    'agent-server/src/modules/git/a.ts',
    `import { editor } from '../../compat/editor/module.ts'`,
    'nothing imports compat',
  ],
  [
    'a module in the wiring',
    'agent-server/src/serve.ts',
    `import { bash } from './modules/bash/module.ts'`,
    'a module of a server',
  ],
  ['the environment', 'http/src/a.ts', 'const x = process.env.HOME', 'reads process.env'],
  ['a setting', 'http/src/a.ts', 'if (env.SLIPWAY_WEB) open()', 'reads SLIPWAY_WEB'],
  [
    'a setting of a config',
    'cli/src/a.ts',
    'const { SLIPWAY_URL: url } = this.#config.env',
    'reads SLIPWAY_URL',
  ],
  ['a setting of any variables', 'http/src/a.ts', 'f(variables.LLM_MODEL)', 'reads LLM_MODEL'],
  ['a variable that is new', 'http/src/a.ts', 'const limit = env.MY_LIMIT', 'reads MY_LIMIT'],
  ['a variable by a name', 'http/src/a.ts', 'const limit = env[name]', 'reads env[...]'],
  ['a compile cache in /tmp', 'http/src/main.js', 'module.enableCompileCache()', 'calls enableCompileCache'],
  [
    'a schema in a command',
    'cli/src/a.ts',
    `import { type Event, event } from '@slipway/protocol'`,
    'all schemas',
  ],
  ['a cut at a number', 'agent/src/a.ts', 'const text = message.trim().slice(0, 2_000)', 'halve'],
  ['a cut at a limit', 'agent-server/src/a.ts', "return text.slice(0, maxDetail - 1) + '…'", 'halve'],
  ['a cut in a page', 'console/src/a.ts', '<p>{detail.slice(0, 300)}</p>', 'halve'],
  ['a cut of the end', 'agent/src/a.ts', 'this.#text = text.slice(-maxStderrChars)', 'halve'],
])('%s is refused', (_, file, text, fault) => {
  expect(findViolations([source(file, text)])).toEqual([expect.stringContaining(fault)])
})

test('a list, a digest and characters in a list may be cut', () => {
  const text =
    'f(files.slice(0, maxFiles), names.slice(-maxNamed), hash(a).slice(0, 32), [...b].slice(0, maxChars).join(""))'
  expect(findViolations([source('agent/src/a.ts', text)])).toEqual([])
})

test('the command may take types from the front door of the protocol', () => {
  const file = source('cli/src/a.ts', `import { type Event } from '@slipway/protocol'`)
  expect(findViolations([file])).toEqual([])
})

test('a variable of the system may be read, and a setting be given to a program', () => {
  const text = 'const { HOME } = env; start({ PATH: env.PATH, SLIPWAY_WEB: web }, on ? { LLM_MODEL } : {})'
  expect(findViolations([source('http/src/a.ts', text)])).toEqual([])
})

test('the command may load an example lazily', () => {
  const file = source('cli/src/a.ts', `const demo = await import('@slipway/examples/demo')`)
  expect(findViolations([file])).toEqual([])
})

test('a cycle of files is refused and named once', () => {
  const ring = [
    source('http/src/a.ts', `import './b.ts'`),
    source('http/src/b.ts', `import type { A } from './a.ts'`),
  ]
  expect(findViolations(ring)).toEqual([
    'import cycle between files: http/src/a.ts -> http/src/b.ts -> http/src/a.ts',
  ])
})

test('a cycle of folders is refused, and so is a fixture in production code', () => {
  const files = [
    source('http/src/a/x.ts', `import '../b/y.ts'`),
    source('http/src/b/y.ts', ''),
    source('http/src/b/z.ts', `import '../a/w.ts'`),
    source('http/src/a/w.ts', ''),
    source('http/src/a/v.ts', `import '../testing/fixtures.ts'`),
    source('http/src/testing/fixtures.ts', ''),
  ]
  expect(findViolations(files)).toEqual([
    'http/src/a/v.ts: imports ../testing/fixtures.ts: only tests may import tests and testing/',
    'import cycle between folders: http/src/a -> http/src/b -> http/src/a',
    'import cycle between capabilities: http/src/a -> http/src/b -> http/src/a',
  ])
})

test('a cycle between the capabilities of a package is found where no folder has one', () => {
  const files = [
    source('http/src/a/inner/x.ts', `import type { Y } from '../../b/y.ts'`),
    source('http/src/b/y.ts', ''),
    source('http/src/b/inner/z.ts', `import { w } from '../../a/w.ts'`),
    source('http/src/a/w.ts', ''),
  ]
  expect(findViolations(files)).toEqual([
    'import cycle between capabilities: http/src/a -> http/src/b -> http/src/a',
  ])
})

test('the sources respect the borders', () => {
  expect(findViolations(readSources())).toEqual([])
})
