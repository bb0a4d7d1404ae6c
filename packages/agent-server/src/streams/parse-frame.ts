import { invalidInput, type Schema } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'

/** The value of a client text frame; a Problem `invalid` with this detail unless the schema accepts it. */
export function parseFrame<T>(schema: Schema<T>, text: string, detail: string): T {
  const value = parseJson(text)
  if (value === undefined) throw invalidInput(['frame'], 'The frame is not valid JSON', 'json_invalid')
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw invalidInput(['frame'], detail)
  return parsed.data
}
