import type { CommandRule } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { decideCommand, matchesPattern } from './command-rules.ts'

const rules: CommandRule[] = [
  { pattern: 'git status *', decision: 'allow' },
  { pattern: 'npm test', decision: 'allow' },
  { pattern: 'timeout *', decision: 'allow' },
  { pattern: 'cd *', decision: 'allow' },
  { pattern: 'echo *', decision: 'allow' },
  { pattern: 'git push *', decision: 'ask' },
  { pattern: 'git push --force *', decision: 'deny' },
  { pattern: 'rm -rf *', decision: 'deny' },
]

test.each([
  ['git status', 'allow'],
  ['git status --short', 'allow'],
  ['/usr/bin/git status', 'allow'],
  ['git   status "--short"', 'allow'],
  ['cd web && npm test', 'allow'],
  ['timeout 10 npm test 2>&1', 'allow'],
  ['npm test > /dev/null', 'allow'],
  ['echo "$(git status)"', 'allow'],
  ['git statuses', undefined],
  ['npm test -- --watch', undefined],
  ['git status && make', undefined],
  ['git status; make', undefined],
  ['git status | tee out', undefined],
  ['git status & make', undefined],
  ['echo "$(make)"', undefined],
  ['echo `make`', undefined],
  ['echo x > file', undefined],
  ['echo x 2>1', undefined],
  ['echo x >> ~/.bashrc', undefined],
  ['(git status) > file', undefined],
  ['GIT_PAGER=evil git status', undefined],
  ['PATH=/tmp; git status', undefined],
  ['timeout 10 make', undefined],
  ['git() { make; }; git status', undefined],
  ['if git status; then make; fi', undefined],
  ['cat <(make)', undefined],
  ['', undefined],
  ['git push', 'ask'],
  ['git status && git push origin main', 'ask'],
  ['git push --force', 'deny'],
  ['npm test && git push --force', 'deny'],
  ['bash -c "rm -rf build"', 'deny'],
  ['sudo rm -rf build', 'deny'],
  ['find . -exec rm -rf {} +', 'deny'],
  ['echo x | xargs rm -rf', 'deny'],
  ['echo $(rm -rf build)', 'deny'],
  ["eval 'rm -rf build'", 'deny'],
  ['X=rm; $X -rf build', 'deny'],
  // What cannot be read is asked about, because something is denied.
  ['$UNKNOWN -rf build', 'ask'],
  ['git status "', 'ask'],
  [`echo ${'x'.repeat(40_000)}`, 'ask'],
] as const)('%s: %s', async (command, decision) => {
  expect((await decideCommand(command, rules))?.decision).toBe(decision)
})

test('nothing is asked about when rules only allow', async () => {
  const allowing = rules.filter((rule) => rule.decision === 'allow')
  for (const command of ['git status "', '$UNKNOWN x', 'git push --force'])
    expect(await decideCommand(command, allowing)).toBeUndefined()
  expect(await decideCommand('git push', [])).toBeUndefined()
})

test.each([
  ['a b', 'a b', true],
  ['a b', 'a *', true],
  ['a', 'a *', true],
  ['ab', 'a *', false],
  ['a\nb', 'a*', true],
  ['a b c', '* c', true],
  ['a.b', 'a?b', false],
  ['a b', 'A b', false],
  ['a xyz b', 'a *y* b', true],
  ['', '*', true],
])('text %j, pattern %j: %s', (text, pattern, expected) => {
  expect(matchesPattern(text, pattern)).toBe(expected)
})
