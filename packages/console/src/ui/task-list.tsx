import { recordOf, textOf } from '../log/event-facts.ts'

const marks: Readonly<Record<string, string>> = { done: '✓', in_progress: '◐', todo: '○' }
const words: Readonly<Record<string, string>> = { done: 'done', in_progress: 'in progress', todo: 'to do' }

/** The tasks of an agent, with what is done. */
export function TaskList({ tasks }: { readonly tasks: readonly unknown[] }) {
  if (tasks.length === 0) return <p className="quiet">No tasks.</p>
  return (
    <ul className="task-list">
      {tasks.slice(0, 500).map((task, at) => {
        const { title, notes, status } = recordOf(task)
        const state = String(status ?? 'todo')
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: tasks have no ids, and the list is fixed
          <li key={at} className={state}>
            <span aria-hidden="true">{marks[state] ?? '○'} </span>
            <span className="sr-only">{words[state] ?? state}: </span>
            <span dir="auto">{(textOf(title) ?? '').slice(0, 2_000)}</span>
            {textOf(notes) ? <span className="quiet"> {String(notes).slice(0, 2_000)}</span> : null}
          </li>
        )
      })}
    </ul>
  )
}
