import { expect, test } from 'vitest'
import { capabilityOf, countCases, describeCounts } from './count-cases.ts'

const each = (file: string, id?: string) => ({ id, title: 'lives', file })

test.each([
  ['conformance/map/server/f01.test.ts', 'F01.alive', 'map/server status and information'],
  ['conformance/map/frame.ts', undefined, 'conformance/map'],
  ['conformance/wire/health.test.ts', 'GET /alive', 'conformance/wire'],
  ['scripts/conformance/find-cases.test.ts', 'F01.alive', 'scripts'],
  ['packages/agent/src/tools/files/edit.test.ts', undefined, 'agent/tools'],
  ['packages/agent/src/index.test.ts', undefined, 'agent'],
])('%s with the id %s is of %s', (file, id, capability) =>
  expect(capabilityOf(each(file, id))).toBe(capability),
)

test('counts each capability in both revisions, also one that is in one alone', () => {
  const before = [each('packages/agent/src/tools/a.test.ts'), each('packages/agent/src/llm/a.test.ts')]
  const after = [before, before].flat().slice(1, 3)
  const counts = countCases([before.slice(0, 1), after], capabilityOf)
  expect([...counts]).toEqual([
    ['agent/llm', [0, 1]],
    ['agent/tools', [1, 1]],
  ])
  expect(describeCounts(counts).map((line) => line.replace(/ +/g, ' '))).toEqual([
    'agent/llm 0 1',
    'agent/tools 1 1',
    'all 1 2',
  ])
})
