import type { GoalState } from '@slipway/protocol'
import { shorten } from '../view/content-blocks.ts'
import type { ViewEvent } from '../view/log-event.ts'

/** Sections at the end of a summary that no model rewrites; each is a heading and lines. */
const headings = { tasks: '## Task list', goal: '## Goal', facts: '## Facts' } as const

const maxSectionChars = 4_000

interface CarryInput {
  readonly forgotten: readonly ViewEvent[]
  /** What stays in the view. */
  readonly remaining: readonly ViewEvent[]
  readonly goal: GoalState | undefined
}

/**
 * A summary of at most `maxChars` characters with what is carried over whatever the model wrote: the newest
 * task list when its event is forgotten, the goal that is pursued, and every line of the sections of facts of
 * this summary and of those that it replaces, up to 4,000 characters, the newest.
 */
export function carryOver(
  text: string,
  { forgotten, remaining, goal }: CarryInput,
  maxChars: number,
): string {
  const earlier = forgotten.flatMap((event) =>
    event.kind === 'CondensationSummaryEvent' ? [splitSections(event.summary)] : [],
  )
  const { body, facts } = splitSections(text)
  const tasks = newestTaskList(remaining) === undefined ? newestTaskList(forgotten)?.map(taskLine) : []
  const lines = {
    tasks: tasks ?? earlier.at(-1)?.tasks ?? [],
    goal: goal?.active === true ? [shorten(goal.objective, maxSectionChars)] : [],
    facts: newestLines([...new Set([...earlier.flatMap((one) => one.facts), ...facts])]),
  }
  const sections = (['tasks', 'goal', 'facts'] as const).flatMap((name) =>
    lines[name].length === 0
      ? []
      : [`${headings[name]}\n${shorten(lines[name].join('\n'), maxSectionChars)}`],
  )
  const room = maxChars - sections.reduce((sum, section) => sum + section.length + 2, 0)
  return [shorten(body, room), ...sections].filter((part) => part !== '').join('\n\n')
}

/** The lines under each heading of a summary; `body` is all before the first of them. */
function splitSections(text: string): { body: string; tasks: string[]; goal: string[]; facts: string[] } {
  const sections = {
    body: [] as string[],
    tasks: [] as string[],
    goal: [] as string[],
    facts: [] as string[],
  }
  let current: keyof typeof sections = 'body'
  for (const line of text.split('\n')) {
    const heading = (['tasks', 'goal', 'facts'] as const).find((name) => headings[name] === line.trim())
    if (heading !== undefined) current = heading
    else if (current === 'body' || line.trim() !== '') sections[current].push(line)
  }
  return { ...sections, body: sections.body.join('\n').trim() }
}

/** The task list of the newest result of the tracker; undefined without one. */
export function newestTaskList(events: readonly ViewEvent[]) {
  for (const event of events.toReversed()) {
    if (event.kind !== 'ObservationEvent' || event.observation?.kind !== 'TaskTrackerObservation') continue
    const { task_list } = event.observation
    return Array.isArray(task_list) ? task_list : []
  }
  return undefined
}

type Task = NonNullable<ReturnType<typeof newestTaskList>>[number]

export function taskLine({ title, notes, status }: Task): string {
  return `- [${status ?? 'todo'}] ${title}${notes ? ` (${notes})` : ''}`
}

function newestLines(lines: readonly string[]): string[] {
  let chars = 0
  const from = lines.findLastIndex((line) => {
    chars += line.length + 1
    return chars > maxSectionChars
  })
  return lines.slice(from + 1)
}
