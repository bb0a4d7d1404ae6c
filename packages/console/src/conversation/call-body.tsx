import { jsonText, recordOf, textOf } from '@slipway/protocol/event-text'
import type { WireEvent } from '../api/log.ts'
import { Diff } from '../ui/diff.tsx'
import { LongText } from '../ui/long-text.tsx'
import { TaskList } from '../ui/task-list.tsx'

/** The arguments of a call, in the form that its tool has. */
export function CallBody({ event, hasResult }: { readonly event: WireEvent; readonly hasResult: boolean }) {
  const action = recordOf(event.action)
  const command = textOf(action.command)
  const edit = editOf(action)
  if (edit !== undefined) {
    return (
      <div>
        <p className="path mono">{edit.path}</p>
        <Diff before={edit.before} after={edit.after} />
      </div>
    )
  }
  const tasks = action.task_list
  // The result of the task list shows it as well.
  if (Array.isArray(tasks)) return hasResult ? null : <TaskList tasks={tasks} />
  if (command !== undefined && textOf(action.path) === undefined)
    return <LongText text={command} render={(text) => <pre className="output command">{text}</pre>} />
  const thought = textOf(action.thought)
  if (thought !== undefined)
    return <LongText text={thought} render={(text) => <div className="plain">{text}</div>} />
  const { kind: _, ...rest } = action
  const data = rest.data ?? (event.action == null ? parseArguments(event) : rest)
  return <Members value={data} />
}

/** The old and the new text of an edit, where the call has both. */
function editOf(
  action: Readonly<Record<string, unknown>>,
): { path: string; before: string; after: string } | undefined {
  const path = textOf(action.path) ?? textOf(action.file_path)
  if (path === undefined) return undefined
  const before = textOf(action.old_str) ?? textOf(action.old_string) ?? ''
  const after =
    textOf(action.new_str) ?? textOf(action.new_string) ?? textOf(action.file_text) ?? textOf(action.content)
  return after === undefined && before === '' ? undefined : { path, before, after: after ?? '' }
}

function parseArguments(event: WireEvent): unknown {
  const text = textOf(recordOf(event.tool_call).arguments) ?? ''
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** A record as names and values; anything else as JSON. */
export function Members({ value }: { readonly value: unknown }) {
  const members = Object.entries(recordOf(value)).filter(
    ([, member]) => member !== null && member !== undefined,
  )
  if (members.length === 0)
    return typeof value === 'string' && value !== '' ? <LongText text={value} /> : null
  return (
    <dl className="members">
      {members.map(([name, member]) => (
        <div key={name}>
          <dt className="mono">{name}</dt>
          <dd>
            <LongText
              text={typeof member === 'string' ? member : jsonText(member)}
              render={(text) => <pre className="output flat">{text}</pre>}
            />
          </dd>
        </div>
      ))}
    </dl>
  )
}
