import { invalidInput } from '@slipway/protocol'

interface Schema<T> {
  safeParse(value: unknown): { readonly success: true; readonly data: T } | { readonly success: false }
}

/** The JSON of a client's text frame; a Problem `invalid` with this detail when it does not fit the schema. */
export function parseFrame<T>(schema: Schema<T>, text: string, detail: string): T {
  const parsed = schema.safeParse(parseJson(text))
  if (!parsed.success) throw invalidInput(['frame'], detail)
  return parsed.data
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalidInput(['frame'], 'The frame is not valid JSON', 'json_invalid')
  }
}
