const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' })
const number = new Intl.NumberFormat()
const compact = new Intl.NumberFormat(undefined, { notation: 'compact', maximumFractionDigits: 1 })

export function formatDateTime(ms: number): string {
  return Number.isNaN(ms) ? 'no time' : dateTime.format(ms)
}

export function formatClock(ms: number): string {
  return Number.isNaN(ms) ? '' : clock.format(ms)
}

/** `3 min ago`. */
export function formatAgo(ms: number, now = Date.now()): string {
  if (Number.isNaN(ms)) return ''
  const seconds = (ms - now) / 1000
  const units = [
    ['year', 31_536_000],
    ['month', 2_592_000],
    ['day', 86_400],
    ['hour', 3_600],
    ['minute', 60],
  ] as const
  for (const [unit, length] of units)
    if (Math.abs(seconds) >= length) return relative.format(Math.round(seconds / length), unit)
  return 'just now'
}

/** `850 ms`, `3.2 s`, `4 min 10 s`, `2 h 5 min`. */
export function formatDuration(ms: number): string {
  if (!(ms >= 0)) return ''
  if (ms < 1_000) return `${Math.round(ms)} ms`
  const seconds = ms / 1_000
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export function formatNumber(value: number): string {
  return number.format(value)
}

export function formatCompact(value: number): string {
  return compact.format(value)
}

/** Dollars; small amounts keep their first digits. */
export function formatCost(dollars: number): string {
  if (dollars === 0) return '$0'
  return dollars < 0.01 ? `$${dollars.toPrecision(2)}` : `$${dollars.toFixed(2)}`
}
