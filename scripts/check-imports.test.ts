import { expect, test } from 'vitest'
import { findViolations, parseImports, readSources } from './check-imports.ts'

const source = (file: string, text: string) => ({ file, text, imports: parseImports(text) })

test('every form of import is seen, types and dynamic ones too', () => {
  const text = `import type { A } from './a.ts'\nimport {\n  b,\n  c,\n} from '@slipway/x'\nexport { d } from './d.ts'\nimport './e.ts'\nconst f = await import('./f.ts')\n`
  expect(parseImports(text)).toEqual(['./a.ts', '@slipway/x', './d.ts', './e.ts', './f.ts'])
})

test.each([
  ['an upward import', 'protocol/src/a.ts', `import { x } from '@slipway/storage'`, 'may import nothing'],
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
    `import { fastify } from 'fastify'`,
    'allowed only in http/',
  ],
  [
    'SQL outside storage',
    'agent-server/src/a.ts',
    `import { DatabaseSync } from 'node:sqlite'`,
    'allowed only in storage/src/sqlite/',
  ],
  ['a test from a source', 'http/src/a.ts', `import { x } from './b.test.ts'`, 'a test'],
  ['the environment', 'http/src/a.ts', 'const x = process.env.HOME', 'reads process.env'],
])('%s is refused', (_, file, text, fault) => {
  expect(findViolations([source(file, text)])).toEqual([expect.stringContaining(fault)])
})

test('a ring of files is refused and named once', () => {
  const ring = [
    source('http/src/a.ts', `import './b.ts'`),
    source('http/src/b.ts', `import type { A } from './a.ts'`),
  ]
  expect(findViolations(ring)).toEqual(['ring: http/src/a.ts -> http/src/b.ts -> http/src/a.ts'])
})

test('the sources keep to the borders', () => {
  expect(findViolations(readSources())).toEqual([])
})
