import { expect, test } from 'vitest'
import { rewriteDeclarationImports } from './client-package.ts'
import { toJavaScript } from './command-package.ts'
import { isReleased } from './files.ts'

test('a source of the command becomes JavaScript on the same lines, its imports existing paths', () => {
  const source = [
    "import { Secret, type Log } from '@slipway/protocol'",
    "import { textsOf } from '@slipway/protocol/message-texts'",
    "import { decodePercent } from '@slipway/shared/url'",
    "const demo = () => import('@slipway/examples/demo')",
    "import { own } from './own.ts'",
    "const later = () => import('../later.ts')",
    "const worker = new URL('./text-worker.ts', import.meta.url)",
    "const server = resolve(root, 'packages/agent-server/src/serve.ts')",
    "export const f = (log: Log, n = 1 as number): string => n + '.ts'",
  ]
  const lines = toJavaScript(source.join('\n'), 'packages/storage/src/sqlite/text.ts').split('\n')
  expect(lines.map((line) => line.replaceAll(/ +/g, ' ').trim())).toEqual([
    "import { Secret, } from '../../../protocol/src/index.js'",
    "import { textsOf } from '../../../protocol/src/message-texts.js'",
    "import { decodePercent } from '../../../shared/src/url/index.js'",
    "const demo = () => import('../../../../examples/demo/demo.js')",
    "import { own } from './own.js'",
    "const later = () => import('../later.js')",
    "const worker = new URL('./text-worker.js', import.meta.url)",
    "const server = resolve(root, 'packages/agent-server/src/serve.js')",
    "export const f = (log , n = 1 ) => n + '.ts'",
  ])
})

test('declarations of the client import no other package', () => {
  const text = [
    "import type { RouteName } from './route-types.ts'",
    "import { agentRoutes } from '@slipway/protocol'",
    "import { Secret } from '@slipway/shared/redaction'",
  ]
  expect(rewriteDeclarationImports(text.join('\n'), 'client/src/x/y.d.ts').split('\n')).toEqual([
    "import type { RouteName } from './route-types.js'",
    "import { agentRoutes } from '../../../protocol/src/index.js'",
    "import { Secret } from '../../../shared/src/redaction/index.js'",
  ])
})

test('tests, fixtures and the programs of pages are not released', () => {
  const files = [
    'demo/demo.ts',
    'readme/client.ts',
    'client/run-a-task.ts',
    'src/a.test.ts',
    'src/testing/fixtures.ts',
    'src/a.ts',
  ]
  expect(files.filter(isReleased)).toEqual(['demo/demo.ts', 'src/a.ts'])
})
