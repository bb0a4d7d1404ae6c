import { expect, test } from 'vitest'
import { FailureLines } from './failure-lines.ts'

function find(text: string, { fromOffset = 0, maxChars = 10_000, part = text.length || 1 } = {}): string[] {
  const lines = new FailureLines({ fromOffset, maxChars })
  for (let at = 0; at < text.length; at += part) lines.write(text.slice(at, at + part))
  return lines.before(text.length)
}

const failures = [
  // pytest, unittest.
  'FAILED tests/test_sum.py::test_adds - assert 1 == 2',
  'ERROR tests/test_sum.py - ModuleNotFoundError: No module named x',
  '____________________ test_adds ____________________',
  'E       assert 1 == 2',
  'tests/test_sum.py:12: AssertionError',
  'FAIL: test_adds (tests.SumTest)',
  'ValueError: not a number',
  // vitest, jest, node.
  ' FAIL  src/sum.test.ts > adds',
  'FAIL src/sum.test.js',
  '   × adds 5ms',
  '  ● sum › adds',
  '✖ adds (0.5ms)',
  'not ok 3 - adds',
  'AssertionError: expected 1 to be 2 // Object.is equality',
  'TypeError [ERR_INVALID_ARG_TYPE]: no',
  // go.
  '--- FAIL: TestAdds (0.00s)',
  '    --- FAIL: TestAdds/small (0.00s)',
  '    sum_test.go:9: got 1, want 2',
  'FAIL\texample.test/sum\t0.002s',
  './sum.go:3:5: undefined: x',
  'panic: runtime error: index out of range',
  // cargo.
  'error[E0308]: mismatched types',
  'error: could not compile `sum` (lib) due to 1 previous error',
  '  --> src/lib.rs:3:5',
  'test tests::adds ... FAILED',
  "thread 'tests::adds' panicked at src/lib.rs:9:9:",
  // tsc.
  "src/sum.ts(3,7): error TS2322: Type 'string' is not assignable to type 'number'.",
  'src/sum.ts:3:7 - error TS2322: no',
  // make, gcc.
  'make[1]: *** [Makefile:12: sum.o] Error 1',
  'sum.c:3:5: error: expected expression',
  'sum.c:1:10: fatal error: missing.h: No such file or directory',
  "sum.c:(.text+0x5): undefined reference to `add'",
  // Maven, Gradle.
  '[ERROR] SumTest.adds:9 expected: <2> but was: <1>',
  '> Task :test FAILED',
  'SumTest > adds() FAILED',
]
const others = [
  'tests/test_sum.py::test_adds PASSED',
  ' ✓ handles errors of the server 3ms',
  'ok  \texample.test/sum\t0.002s',
  '=== RUN   TestAdds',
  'test tests::fails_well ... ok',
  '   Compiling error-chain v0.12.4',
  'cc -c error.c -o error.o',
  '0 errors, 0 failed',
  'The word error stands in a sentence.',
  'Downloaded exception-list 1.0',
  '',
]

test.each(failures)('%j names a failure', (line) => {
  expect(find(`before\n${line}\nafter\n`)).toEqual([`2: ${line}`])
})

test.each(others)('%j names none', (line) => {
  expect(find(`${line}\n`)).toEqual([])
})

test('eslint names the file once, above its failures', () => {
  const text = [
    ...['/project/src/a.ts', '  1:2  warning  Odd  odd', '/project/src/b.ts', '  3:4  warning  Odd  odd'],
    ...["  12:5  error  'x' is not defined  no-undef", '  13:5  error  Also  no', ''],
  ].join('\n')
  const found = [
    '3: /project/src/b.ts',
    "5:   12:5  error  'x' is not defined  no-undef",
    '6:   13:5  error  Also  no',
  ]
  expect(find(text)).toEqual(found)
})

test('parts of any length give the same lines, with the numbers of the whole', () => {
  const text = `${'fine\n'.repeat(300)}/a/b.ts\n  1:1  error  Bad  bad\n${'x'.repeat(5_000)}\nFAILED last`
  const found = ['301: /a/b.ts', '302:   1:1  error  Bad  bad', '304: FAILED last']
  for (const part of [1, 2, 3, 7, 64, 1_000, 100_000]) expect(find(text, { part }), `${part}`).toEqual(found)
})

test('a long line is cut, and lines before the beginning, after the end and beyond the limit are not kept', () => {
  const line = `FAILED ${'x'.repeat(10_000)}`
  expect(find(`${line}\n`)[0]).toHaveLength(243)
  expect(find('FAILED a\nFAILED b\n', { fromOffset: 1 })).toEqual(['2: FAILED b'])
  expect(find('FAILED a\n'.repeat(1_000), { maxChars: 40 })).toEqual([
    '1: FAILED a',
    '2: FAILED a',
    '3: FAILED a',
  ])
  const lines = new FailureLines({ fromOffset: 0, maxChars: 100 })
  lines.write('FAILED a\nFAILED b\n')
  expect(lines.before(9)).toEqual(['1: FAILED a'])
})
