import { expect, test, vi } from 'vitest'
import { parseTime, relativeTime } from './relative-time.ts'

test('a moment is shown as its age, and as a date when it is long ago', () => {
  const now = Date.parse('2026-05-20T12:00:00Z')
  const show = (ageMs: number) => relativeTime(new Date(now - ageMs).toISOString(), now)
  expect([0, 5 * 60e3, 3 * 3600e3, 30 * 3600e3, 5 * 86400e3].map(show)).toEqual([
    'now',
    '5m ago',
    '3h ago',
    'yesterday',
    '5d ago',
  ])
  expect(show(30 * 86400e3)).toBe('2026-04-20')
  expect(relativeTime('')).toBe('')
})

test('a time without a zone is UTC wherever the command runs', () => {
  vi.stubEnv('TZ', 'America/Lima')
  try {
    const now = Date.parse('2026-05-20T12:00:00Z')
    for (const time of ['2026-05-20T11:55:00.123456', '2026-05-20T11:55:00Z', '2026-05-20T13:55:00+02:00'])
      expect(relativeTime(time, now)).toMatch(/^[45]m ago$/)
  } finally {
    vi.unstubAllEnvs()
  }
})

test('a moment is named by an age, a day or a date', () => {
  const now = new Date(2026, 4, 20, 12, 30)
  const local = (day: number) => new Date(2026, 4, day).toISOString()
  expect(parseTime('2h', now)).toBe(new Date(2026, 4, 20, 10, 30).toISOString())
  expect(parseTime('3d ago', now)).toBe(new Date(now.getTime() - 3 * 86_400_000).toISOString())
  expect(parseTime('today', now)).toBe(local(20))
  expect(parseTime('yesterday', now)).toBe(local(19))
  expect(parseTime('2026-05-01', now)).toBe(local(1))
  expect(parseTime('2026-05-01T10:00:00.123456Z', now)).toBe('2026-05-01T10:00:00.123456Z')
  for (const text of ['', 'soon', '2026-13-01', '2026-02-30', '5', 'h'])
    expect(parseTime(text, now)).toBeUndefined()
})
