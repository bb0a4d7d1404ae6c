import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  compareMoments,
  firstInstant,
  formatInstant,
  nextInstant,
  parseInstant,
  parseMoment,
} from './instant.ts'

const maxInstant = 9_000_000_000_000_000
const instants = fc.integer({ min: -maxInstant, max: maxInstant })
const milliseconds = fc.integer({ min: -maxInstant / 1000, max: maxInstant / 1000 })

test('what is written is read back, to the microsecond', () => {
  fc.assert(
    fc.property(instants, (instant) => {
      expect(parseInstant(formatInstant(instant))).toBe(instant)
    }),
  )
})

test('texts of one form sort as their instants do', () => {
  fc.assert(
    fc.property(instants, instants, (a, b) => {
      const [x, y] = [formatInstant(a), formatInstant(b)]
      expect(x < y).toBe(a < b)
    }),
  )
})

test('at milliseconds it says what Date says', () => {
  fc.assert(
    fc.property(milliseconds, (ms) => {
      expect(parseInstant(new Date(ms).toISOString())).toBe(ms * 1000)
    }),
  )
})

test('moments of far years are exact, and their instants are safe integers that are written and read back', () => {
  const moment = fc.tuple(
    fc.integer({ min: 0, max: 9999 }),
    fc.integer({ min: 1, max: 12 }),
    fc.nat(59),
    fc.stringMatching(/^0[0459]{1,9}$/),
  )
  const text = ([year, month, second, fraction]: readonly [number, number, number, string]) =>
    `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}-15T12:00:${String(second).padStart(2, '0')}.${fraction.padEnd(12, '0')}Z`
  fc.assert(
    fc.property(moment, moment, (one, other) => {
      const [a, b] = [parseMoment(text(one)), parseMoment(text(other))]
      if (a === undefined || b === undefined) throw new Error('no moment')
      expect(Math.sign(compareMoments(a, b))).toBe(
        text(one) === text(other) ? 0 : text(one) < text(other) ? -1 : 1,
      )
      for (const { instant } of [a, b]) {
        expect(Number.isSafeInteger(instant)).toBe(true)
        expect(parseMoment(formatInstant(instant))).toEqual({ instant })
      }
    }),
    { numRuns: 2_000 },
  )
})

test('what is finer than an instant has no zeros at its end, and the first instant of a bound is not before it', () => {
  const at = (fraction: string) => {
    const moment = parseMoment(`2026-03-01T10:00:00.${fraction}Z`)
    return [moment?.finer, moment && firstInstant(moment)]
  }
  const micro = parseInstant('2026-03-01T10:00:00.123456Z') ?? Number.NaN
  expect(at('1234567')).toEqual(['7', micro + 1])
  expect(at('123456000')).toEqual([undefined, micro])
  expect(at('1234560001000')).toEqual(['0001', micro + 1])
  expect(parseMoment('2026-03-01T10:00:00,1234567+02:00')).toEqual({
    instant: parseInstant('2026-03-01T08:00:00.123456Z'),
    finer: '7',
  })
  expect(parseMoment('x')).toBeUndefined()
})

test('a new event follows the newest one, until the year has no four digits', () => {
  expect([nextInstant(5, undefined), nextInstant(5, 3), nextInstant(5, 7)]).toEqual([5, 5, 8])
  const last = parseInstant('9999-12-31T23:59:59.999999Z') ?? 0
  expect(formatInstant(nextInstant(5, last))).toBe('9999-12-31T23:59:59.950000Z')
})

test('an offset moves the instant as Date moves it', () => {
  const offset = fc.tuple(
    fc.constantFrom('+', '-'),
    fc.integer({ min: 0, max: 23 }),
    fc.integer({ min: 0, max: 59 }),
  )
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), offset, (ms, [sign, hours, minutes]) => {
      const zone = `${sign}${String(hours).padStart(2, '0')}:${String(minutes).padStart(2, '0')}`
      const text = new Date(ms).toISOString().replace('Z', zone)
      expect(parseInstant(text)).toBe(Date.parse(text) * 1000)
    }),
  )
})

test('digits after the sixth are cut, fewer are filled up', () => {
  const zero = parseInstant('2026-03-01T10:00:00Z') ?? 0
  fc.assert(
    fc.property(fc.stringMatching(/^\d{1,12}$/), (digits) => {
      const micros = Number(digits.slice(0, 6).padEnd(6, '0'))
      expect(parseInstant(`2026-03-01T10:00:00.${digits}Z`)).toBe(zero + micros)
    }),
  )
})

test.each([
  ['2026-03-01', '2026-03-01T00:00:00.000000Z'],
  ['2026-03-01T10:00', '2026-03-01T10:00:00.000000Z'],
  ['2026-03-01 10:00:05', '2026-03-01T10:00:05.000000Z'],
  ['2026-03-01t10:00:05z', '2026-03-01T10:00:05.000000Z'],
  ['2026-03-01T10:00:00.123456', '2026-03-01T10:00:00.123456Z'],
  ['2026-03-01T10:00:00,5Z', '2026-03-01T10:00:00.500000Z'],
  ['2026-03-01T10:00:00+0230', '2026-03-01T07:30:00.000000Z'],
  ['2026-03-01T00:30:00+02', '2026-02-28T22:30:00.000000Z'],
  ['2024-02-29T23:59:60Z', '2024-03-01T00:00:00.000000Z'],
  ['2000-02-29', '2000-02-29T00:00:00.000000Z'],
])('%s is read', (text, instant) => {
  expect(formatInstant(parseInstant(text) ?? Number.NaN)).toBe(instant)
})

test.each([
  '',
  'now',
  '2026',
  '2026-03',
  '2026-3-1',
  '2026-13-01',
  '2026-00-01',
  '2026-02-29',
  '1900-02-29',
  '2026-04-31',
  '2026-03-00',
  '2026-03-01T',
  '2026-03-01T24:00:00',
  '2026-03-01T10:60:00',
  '2026-03-01T10:00:61',
  '2026-03-01T10:00:00.',
  '2026-03-01T10:00:00+24:00',
  '2026-03-01T10:00:00+02:60',
  '2026-03-01T10:00:00 Z',
  ' 2026-03-01',
  '2026-03-01\n',
  '1772359200',
  '+002026-03-01T10:00:00Z',
  '２０２６-03-01',
])('%j is no moment', (text) => {
  expect(parseInstant(text)).toBeUndefined()
})
