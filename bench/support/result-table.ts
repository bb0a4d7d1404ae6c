/** One line of a result file: a measurement with its floor or limit of the same run. */
export interface ResultRow {
  readonly name: string
  readonly unit: string
  readonly ours: number
  /** The floor's figure, or the limit. Null for plain information. */
  readonly floor: number | null
  /** `ours / floor`. Null for plain information. */
  readonly ratio: number | null
  /**
   * The goal of the ratio: at least this, or at most this where the unit ends in "at most". Null:
   * information.
   */
  readonly goal: number | null
  readonly holds: boolean | null
}

/** Throughput with a floor, measured in pairs: the medians, and the median of the pairs' ratios. */
export function atLeast(name: string, unit: string, pairs: readonly MeasuredPair[], goal: number): ResultRow {
  const ratio = median(pairs.map((pair) => pair.ours / pair.floor))
  return { ...medians(name, unit, pairs), ratio, goal, holds: ratio >= goal }
}

/** A figure that must not exceed `goal` times a limit (or times another figure, passed as `floor`). */
export function atMost(name: string, unit: string, ours: number, floor: number, goal = 1): ResultRow {
  const ratio = ours / floor
  return { name, unit: `${unit}, at most`, ours, floor, ratio, goal, holds: ratio <= goal }
}

/** A figure without a goal. */
export function information(name: string, unit: string, ours: number, floor?: number): ResultRow {
  const ratio = floor === undefined ? null : ours / floor
  return { name, unit, ours, floor: floor ?? null, ratio, goal: null, holds: null }
}

export interface MeasuredPair {
  readonly ours: number
  readonly floor: number
}

function medians(name: string, unit: string, pairs: readonly MeasuredPair[]) {
  return {
    name,
    unit,
    ours: median(pairs.map(({ ours }) => ours)),
    floor: median(pairs.map(({ floor }) => floor)),
  }
}

export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** Nearest rank: the smallest value that `percent` of all values do not exceed. NaN without values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)] ?? Number.NaN
}

/** The rows as a table for a terminal. */
export function formatTable(rows: readonly ResultRow[]): string {
  const lines = [
    ['', 'unit', 'ours', 'floor', 'ratio', 'goal', ''],
    ...rows.map((row) => [
      row.name,
      row.unit,
      formatFigure(row.ours),
      formatFigure(row.floor),
      row.ratio === null ? '' : row.ratio.toFixed(2),
      formatGoal(row),
      row.holds === null ? '' : row.holds ? 'holds' : 'MISSED',
    ]),
  ]
  const widths = lines[0]?.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0))) ?? []
  const isText = (i: number) => i < 2 || i === 6
  return lines
    .map((line) =>
      line.map((cell, i) => (isText(i) ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))),
    )
    .map((line) => line.join('  ').trimEnd())
    .join('\n')
}

function formatGoal({ goal, unit }: ResultRow): string {
  if (goal === null) return ''
  return `${unit.endsWith('at most') ? '<=' : '>='} ${goal}`
}

/** Three significant digits, or whole thousands. */
function formatFigure(value: number | null): string {
  if (value === null) return ''
  return Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))
}
