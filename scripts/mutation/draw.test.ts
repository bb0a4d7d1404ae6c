import { expect, test } from 'vitest'
import { countLines, drawLines, isProductionSource } from './draw.ts'

const sources = ['a', 'b', 'c'].map((name) => ({
  file: `packages/${name}/src/x.ts`,
  text: Array.from({ length: 40 }, (_, n) => (n % 2 === 0 ? '// nothing' : `if (a === ${n}) b()`)).join('\n'),
}))

const places = (seed: string, firstDraw = 0) =>
  [...drawLines(seed, sources, firstDraw)].map(({ draw, source, line }) => `${draw} ${source.file} ${line}`)

test('a seed orders all lines at which a fault applies, the same each time', () => {
  expect(places('one')).toEqual(places('one'))
  expect(places('one')).not.toEqual(places('two'))
  const lines = places('one').map((place) => place.replace(/^\d+ /, ''))
  expect(new Set(lines).size).toBe(60)
})

test('draws from a place on are the rest of all', () => {
  const all = [...drawLines('one', sources)]
  const tenth = all[9]?.draw ?? 0
  expect(places('one', tenth + 1)).toEqual(places('one').slice(10))
})

test('what a line says moves neither it nor others', () => {
  const changed = sources.map(({ file, text }) => ({ file, text: text.replaceAll('===', '!==') }))
  expect([...drawLines('one', changed)].map(({ draw }) => draw)).toEqual(
    [...drawLines('one', sources)].map(({ draw }) => draw),
  )
})

test('the faults of a line come in an order of the seed', () => {
  const text = 'if (a === 1 && b < 2) throw c'
  const orders = Array.from({ length: 20 }, (_, seed) => {
    const [first] = drawLines(String(seed), [{ file: 'packages/a/src/x.ts', text }])
    expect(first?.mutations).toHaveLength(5)
    return first?.mutations[0]?.kind
  })
  expect(new Set(orders)).toEqual(new Set(['condition', 'check']))
})

test.each([
  ['packages/a/src/b/c.ts', true],
  ['packages/console/src/b.tsx', true],
  ['packages/cli/src/main.js', true],
  ['packages/a/src/b.test.ts', false],
  ['packages/a/src/b.process.test.ts', false],
  ['packages/a/src/testing/b.ts', false],
  ['packages/a/src/b.d.ts', false],
  ['packages/a/src/b.json', false],
  ['packages/console/vite.config.ts', false],
  ['scripts/check.ts', false],
])('%s is production source: %s', (file, is) => expect(isProductionSource(file)).toBe(is))

test('a last line break begins no line', () => {
  expect([countLines(''), countLines('a'), countLines('a\n'), countLines('a\n\nb')]).toEqual([0, 1, 1, 3])
})
