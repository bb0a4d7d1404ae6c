import { type Body, failed } from './command.ts'
import type { Session } from './session.ts'

export function startRecording(session: Session): Body {
  return async () => {
    const recording = await session.startRecording()
    if (recording === undefined) return failed('A recording is going on already.')
    return { text: `Recording into ${recording.directory}.`, saved: recording.directory }
  }
}

export function stopRecording(session: Session): Body {
  return async () => {
    const recording = session.takeRecording()
    if (recording === undefined) return failed('No recording is going on.')
    const { kept, dropped, files, failure } = await recording.stop()
    if (failure !== undefined) return failed(`The recording could not be written: ${failure}`)
    const lost = dropped === 0 ? '' : ` ${dropped} more were left out.`
    return {
      text: `Recorded ${kept} events in ${files} files (1.json and so on) in ${recording.directory}.${lost}`,
      saved: recording.directory,
    }
  }
}
