import { follow, type PositionedEvent } from '@slipway/client'
import type { Context } from '../context.ts'
import { eventLine } from '../event-line.ts'
import { eventColumns, eventWidths, print, table } from '../terminal.ts'

/** Prints events as they come, until Ctrl-C or until nothing runs in the conversation. */
export async function tailCommand(
  context: Context,
  id: string,
  options: { readonly after: number; readonly untilIdle: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  const { after, untilIdle } = options
  for await (const item of follow(client, id, { after, signal, ...(untilIdle ? { until: 'idle' } : {}) })) {
    await print(isJson ? `{"position":${item.position},"event":${oneLine(item.text)}}\n` : tailLine(item))
  }
}

/** Position, time, kind, source and summary in one line. */
export function tailLine({ position, event }: PositionedEvent): string {
  return table([[String(position), ...eventColumns(eventLine(event))]], [8, ...eventWidths()])
}

/** A line end outside a JSON string is white space; inside one it cannot be. */
function oneLine(json: string): string {
  return json.replaceAll(/[\r\n]/g, ' ')
}
