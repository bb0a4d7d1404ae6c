import { Floor, percentile } from '../floors/floor.ts'

export { Floor, percentile }

/** One line of a result file: a figure, and what it is compared with. */
export interface ResultRow {
  readonly name: string
  readonly unit: string
  /** The absolute figure: information, because it is another one on each machine. */
  readonly ours: number
  /** The figure of the floor, measured in the same run; null without one. */
  readonly floor: number | null
  /** What the floor is. */
  readonly floorName: string | null
  /** The most of something that no machine changes, such as the bytes of a bundle; null for all else. */
  readonly budget: number | null
  /** `ours` divided by the floor or the budget. Null for plain information. */
  readonly ratio: number | null
  /**
   * The goal of the ratio: at least this, or at most this where the unit ends in "at most". Null:
   * information.
   */
  readonly goal: number | null
  readonly holds: boolean | null
}

/** Units of what is the same on every machine. A goal in any other unit needs a floor. */
export const constantUnits = [
  'bytes on disk',
  'bytes of a bundle',
  'rows',
  '% of the input',
  'tokens of a task',
] as const
export type ConstantUnit = (typeof constantUnits)[number]

/** Throughput with a floor, measured in pairs: the medians, and the median of the pairs' ratios. */
export function atLeast(
  name: string,
  unit: string,
  { floorName, pairs }: { readonly floorName: string; readonly pairs: readonly MeasuredPair[] },
  goal: number,
): ResultRow {
  const ratio = median(pairs.map((pair) => pair.ours / pair.floor))
  const floor = Floor.of(
    floorName,
    pairs.map((pair) => pair.floor),
  )
  const ours = median(pairs.map((pair) => pair.ours))
  return { ...row(name, unit, ours, floor), ratio, goal, holds: ratio >= goal }
}

/** A figure that must not exceed `goal` times its floor. */
export function atMost(name: string, unit: string, ours: number, floor: Floor, goal: number): ResultRow {
  const measured = row(name, `${unit}, at most`, ours, floor)
  return { ...measured, goal, holds: ours / floor.figure <= goal }
}

/** A figure that no machine changes, with the most that it may be. */
export function withinBudget(name: string, unit: ConstantUnit, ours: number, budget: number): ResultRow {
  const measured = row(name, `${unit}, at most`, ours)
  return { ...measured, budget, ratio: ours / budget, goal: 1, holds: ours <= budget }
}

/** A figure without a goal. */
export function information(name: string, unit: string, ours: number, floor?: Floor): ResultRow {
  return row(name, unit, ours, floor)
}

function row(name: string, unit: string, ours: number, floor?: Floor): ResultRow {
  return {
    ...{ name, unit, ours, floor: floor?.figure ?? null, floorName: floor?.name ?? null, budget: null },
    ...{ ratio: floor === undefined ? null : ours / floor.figure, goal: null, holds: null },
  }
}

/** The names of rows with a goal that has neither a measured floor nor a budget in a constant unit. */
export function findGoalsWithoutFloor(rows: readonly ResultRow[]): string[] {
  const isFounded = ({ unit, floor, floorName, budget }: ResultRow) =>
    (floor !== null && floor > 0 && (floorName ?? '') !== '') ||
    (budget != null && constantUnits.some((constant) => unit === `${constant}, at most`))
  return rows.filter((each) => each.goal !== null && !isFounded(each)).map(({ name }) => name)
}

export interface MeasuredPair {
  readonly ours: number
  readonly floor: number
}

export function median(values: readonly number[]): number {
  return percentile(values, 50)
}

/** The rows as a table for a terminal. */
export function formatTable(rows: readonly ResultRow[]): string {
  const lines = [
    ['', 'unit', 'ours', 'floor', 'ratio', 'goal', '', 'floor or budget'],
    ...rows.map((each) => [
      each.name,
      each.unit,
      formatFigure(each.ours),
      formatFigure(each.floor ?? each.budget),
      each.ratio === null ? '' : each.ratio.toFixed(2),
      formatGoal(each),
      formatVerdict(each),
      each.floorName ?? (each.budget === null ? '' : 'budget'),
    ]),
  ]
  const widths = lines[0]?.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0))) ?? []
  const isText = (i: number) => i < 2 || i >= 6
  return lines
    .map((line) =>
      line.map((cell, i) => (isText(i) ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))),
    )
    .map((line) => line.join('  ').trimEnd())
    .join('\n')
}

export function formatVerdict({ holds }: ResultRow): string {
  return holds === null ? '' : holds ? 'holds' : 'MISSED'
}

export function formatGoal({ goal, unit }: ResultRow): string {
  if (goal === null) return ''
  return `${unit.endsWith('at most') ? '<=' : '>='} ${goal}`
}

/** Three significant digits, or whole thousands. */
export function formatFigure(value: number | null): string {
  if (value === null) return ''
  return Math.abs(value) >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)))
}
