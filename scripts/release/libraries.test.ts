import { expect, test } from 'vitest'
import { libraryImports, packageName, replaceLibraryImports } from './libraries.ts'

const source = [
  "import { randomUUID } from 'node:crypto'",
  "import { z } from 'zod'",
  "import { Counter } from 'prom-client/lib/counter.js'",
  "const { createOpenAI } = await import('@ai-sdk/openai')",
  "const { spawn } = await import('@lydell/node-pty')",
  "const { default: sharp } = await import('sharp')",
  "const manifest = createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json')",
  "vite = require.resolve('vite/package.json')",
  "import { own } from './own.js'",
  "const text = 'from zod'",
]

test('imports of libraries become paths of bundles, except those with machine code', () => {
  expect(libraryImports(source.join('\n'))).toEqual([
    'zod',
    'prom-client/lib/counter.js',
    '@ai-sdk/openai',
    '@fastify/swagger-ui/package.json',
  ])
  const replaced = replaceLibraryImports(source.join('\n'), (file) => `../../${file}`).split('\n')
  expect(replaced).toEqual([
    source[0],
    "import { z } from '../../libraries/zod.js'",
    "import { Counter } from '../../libraries/prom-client-lib-counter.js'",
    "const { createOpenAI } = await import('../../libraries/ai-sdk-openai.js')",
    source[4],
    source[5],
    "const manifest = createRequire(import.meta.url).resolve('../../libraries/swagger-ui/package.json')",
    ...source.slice(7),
  ])
})

test('the package of a module', () => {
  expect(['zod', '@ai-sdk/openai', 'prom-client/lib/gauge.js', '@a/b/c.js'].map(packageName)).toEqual([
    'zod',
    '@ai-sdk/openai',
    'prom-client',
    '@a/b',
  ])
})
