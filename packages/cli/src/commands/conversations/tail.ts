import type { PositionedEvent } from '@slipway/client'
import type { Resync } from '@slipway/protocol'
import type { ConversationSource } from '../../conversation/source/source.ts'
import { summarizeEvent } from '../../output/event-line.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { eventColumns, eventWidths, print, printNote, table } from '../../output/terminal.ts'

/** Prints events as they come, until Ctrl-C or until nothing runs in the conversation. */
export async function tailCommand(
  context: { readonly source: ConversationSource; readonly isJson: boolean },
  id: string,
  options: { readonly after: string; readonly untilIdle: boolean },
): Promise<void> {
  const { source, isJson } = context
  const { after, untilIdle } = options
  const until = untilIdle ? 'idle' : undefined
  for await (const item of source.follow(id, { after, until, onResync: noteResync, ...connectionNotes() })) {
    await print(isJson ? positionedLine(item) : tailLine(item))
  }
}

/** Tells people that the connection is lost, and that it is back: each once. */
export function connectionNotes(): { onDisconnect(): void; onConnect(): void } {
  let isLost = false
  return {
    onDisconnect() {
      if (!isLost) printNote('Connection lost, trying again …')
      isLost = true
    },
    onConnect() {
      if (isLost) printNote('Connected again.')
      isLost = false
    },
  }
}

/** Tells people that what was printed is void. */
export function noteResync({ after, message }: Resync): void {
  printNote(`${sanitizeLine(message)} What follows begins after position ${after} again.`)
}

/** `{"position":n,"event":{...},"cursor":"..."}` in one line, the event as it was sent. */
export function positionedLine({ position, text, cursor }: PositionedEvent): string {
  // A line end outside a JSON string is white space; inside one it cannot be.
  return `{"position":${position},"event":${text.replaceAll(/[\r\n]/g, ' ')},"cursor":"${cursor}"}\n`
}

/** Position, time, kind, source and summary in one line. */
export function tailLine({ position, event }: PositionedEvent): string {
  return table([[String(position), ...eventColumns(summarizeEvent(event))]], [8, ...eventWidths()])
}
