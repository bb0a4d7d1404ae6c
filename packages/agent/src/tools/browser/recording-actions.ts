import { type BrowserCommand, failedResult } from './command.ts'
import type { BrowserSession } from './session.ts'

export function startRecording(session: BrowserSession): BrowserCommand {
  return async () => {
    const recording = await session.startRecording()
    if (recording === undefined) return failedResult('A recording is going on already.')
    return { text: `Recording into ${recording.directory}.`, saved: recording.directory }
  }
}

export function stopRecording(session: BrowserSession): BrowserCommand {
  return async () => {
    const recording = session.detachRecording()
    if (recording === undefined) return failedResult('No recording is going on.')
    const { recordedCount, dropped, files, failure } = await recording.stop()
    if (failure !== undefined) return failedResult(`The recording could not be written: ${failure}`)
    const lost = dropped === 0 ? '' : ` ${dropped} more were left out.`
    return {
      text: `Recorded ${recordedCount} events in ${files} files (1.json and so on) in ${recording.directory}.${lost}`,
      saved: recording.directory,
    }
  }
}
