import { follow, type PositionedEvent } from '@slipway/client'
import type { CommandContext } from '../context/command-context.ts'
import { summarizeEvent } from '../output/event-line.ts'
import { eventColumns, eventWidths, print, table } from '../output/terminal.ts'

/** Prints events as they come, until Ctrl-C or until nothing runs in the conversation. */
export async function tailCommand(
  context: CommandContext,
  id: string,
  options: { readonly after: number; readonly untilIdle: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  const { after, untilIdle } = options
  for await (const item of follow(client, id, { after, signal, ...(untilIdle ? { until: 'idle' } : {}) })) {
    await print(isJson ? positionedLine(item) : tailLine(item))
  }
}

/** `{"position":n,"event":{...}}` in one line, the event as it was sent. */
export function positionedLine({ position, text }: PositionedEvent): string {
  // A line end outside a JSON string is white space; inside one it cannot be.
  return `{"position":${position},"event":${text.replaceAll(/[\r\n]/g, ' ')}}\n`
}

/** Position, time, kind, source and summary in one line. */
export function tailLine({ position, event }: PositionedEvent): string {
  return table([[String(position), ...eventColumns(summarizeEvent(event))]], [8, ...eventWidths()])
}
