import { recordOf, textOf } from '@slipway/protocol/event-text'
import { firstChars } from '@slipway/shared/text'

const marks: Readonly<Record<string, string>> = { done: '✓', in_progress: '◐', todo: '○' }
const maxTasks = 500
const words: Readonly<Record<string, string>> = { done: 'done', in_progress: 'in progress', todo: 'to do' }

/** The tasks of an agent, with what is done. */
export function TaskList({ tasks }: { readonly tasks: readonly unknown[] }) {
  if (tasks.length === 0) return <p className="quiet">No tasks.</p>
  return (
    <ul className="task-list">
      {tasks.slice(0, maxTasks).map((task, at) => {
        const { title, notes, status } = recordOf(task)
        const state = String(status ?? 'todo')
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: tasks have no ids, and the list is fixed
          <li key={at} className={state}>
            <span aria-hidden="true">{marks[state] ?? '○'} </span>
            <span className="sr-only">{words[state] ?? state}: </span>
            <span dir="auto">{firstChars(textOf(title) ?? '', 2_000)}</span>
            {textOf(notes) ? <span className="quiet"> {firstChars(String(notes), 2_000)}</span> : null}
          </li>
        )
      })}
    </ul>
  )
}
