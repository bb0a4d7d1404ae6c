import { expect, test } from 'vitest'
import { subjectProblem } from './check-commits.ts'

test.each([
  'fix(secrets): reject redirects of lookups',
  'refactor: compute digests by crypto.hash',
  'fix(http, client): pass the signal of a request on',
  'feat(cli)!: process exports by default',
  'docs: embed the map',
  'fix(storage): claim, count and release once',
])('"%s" is a good subject', (subject) => {
  expect(subjectProblem(subject)).toBeUndefined()
})

test.each([
  ['A key comes in a header, never in a cookie', 'is not `type(scope): what`'],
  ['fix(http): Reject keys in cookies', 'is not `type(scope): what`'],
  ['fix(http): the key comes in a header', 'is no order: "the"'],
  ['fix(http): rejects keys in cookies', 'is no order: "rejects"'],
  ['fix(http): rejected keys in cookies', 'is no order: "rejected"'],
  ['fix(http): rejecting keys in cookies', 'is no order: "rejecting"'],
  [`fix(http): reject ${'x'.repeat(60)}`, 'has 78 characters'],
])('"%s" is refused', (subject, problem) => {
  expect(subjectProblem(subject)).toContain(problem)
})
