import { isAutomaticRejection } from '@slipway/protocol/automatic-rejections'
import { contentImages, isFailure, observationText, recordOf, textOf } from '@slipway/protocol/event-text'
import { firstChars } from '@slipway/shared/text'
import type { WireEvent } from '../api/log.ts'
import { Ansi } from '../ui/ansi.tsx'
import { Diff } from '../ui/diff.tsx'
import { LongText } from '../ui/long-text.tsx'
import { Picture } from '../ui/picture.tsx'
import { TaskList } from '../ui/task-list.tsx'
import { Members } from './call-body.tsx'

/** The result of a call: output, the change of a file, pictures, a task list, or an error. */
export function ResultBody(props: { readonly event: WireEvent; readonly action?: WireEvent }) {
  const { event, action } = props
  if (event.kind === 'AgentErrorEvent')
    return <LongText text={textOf(event.error) ?? ''} render={(part) => <Ansi text={part} />} />
  if (event.kind === 'UserRejectObservation') {
    const asked = event.rejection_source === 'hook' ? 'A hook rejected this call' : 'Rejected by the user'
    const by = isAutomaticRejection(event.rejection_reason) ? 'Not executed' : asked
    return (
      <p className="wrap">
        {by}: {textOf(event.rejection_reason) ?? 'without a reason'}
      </p>
    )
  }
  const observation = recordOf(event.observation)
  if (Array.isArray(observation.task_list)) return <TaskList tasks={observation.task_list} />
  const text = observationText(event.observation)
  const before = textOf(observation.old_content)
  const after = textOf(observation.new_content)
  const hasOwnDiff =
    action !== undefined && /str_replace|insert|create/.test(String(recordOf(action.action).command))
  const screenshot = textOf(observation.screenshot_data)
  const images = [
    ...(screenshot === undefined || screenshot === '' ? [] : [asDataUrl(screenshot)]),
    ...contentImages(observation.content),
  ]
  if (before !== undefined && after !== undefined && !hasOwnDiff && !isFailure(event))
    return <Diff before={before} after={after} />
  if (text === '' && images.length === 0) return <Members value={withoutKind(observation)} />
  return (
    <div className="result">
      {text !== '' && <LongText text={text} render={(part) => <Ansi text={part} />} />}
      {images.map((url) => (
        <Picture key={firstChars(url, 80) + url.length} url={url} label="Picture of the result" />
      ))}
    </div>
  )
}

function asDataUrl(base64: string): string {
  return base64.startsWith('data:') ? base64 : `data:image/png;base64,${base64}`
}

function withoutKind({ kind: _, content: __, ...rest }: Readonly<Record<string, unknown>>): unknown {
  return rest
}
