import { hash } from 'node:crypto'

/**
 * Names and ids in the alphabet and length of a provider. A history holds what models made up (`my tool`,
 * `repo.list`) and what other providers gave, and one text that a provider refuses fails each later request.
 *
 * A text that fits stays as it is. Any other one becomes its allowed characters and a digest of the whole
 * text: the same each time, so that a request begins like the one before it, and another one for another
 * text.
 */

/** Names of tools that all providers take; Kimi wants a letter first. */
const toolName = { fits: /^[A-Za-z][\w-]{0,63}$/, maxLength: 64 }
const nameStart = 'x_'
/** Names of properties that Claude takes. */
const propertyName = { fits: /^[\w.-]{1,64}$/, maxLength: 64 }

/**
 * Forms of call ids. OpenAI takes 40 characters in chats and 64 in responses, Mistral exactly nine. `any` is
 * long: LiteLLM appends Gemini's signature.
 */
const callIds = {
  any: { fits: /^[\x21-\x7e]{1,16384}$/, maxLength: 64 },
  word: { fits: /^[\w-]{1,64}$/, maxLength: 64 },
  short: { fits: /^[\w-]{1,40}$/, maxLength: 40 },
  nine: { fits: /^[a-zA-Z0-9]{9}$/, maxLength: 9 },
} as const

export type CallIdForm = keyof typeof callIds

const digestLength = 9

/** A tool's name as every provider takes it. */
export function fitToolName(name: string): string {
  const fitted = fit(name, toolName)
  if (/^[A-Za-z]/.test(fitted)) return fitted
  return `${nameStart}${fitted.slice(nameStart.length - toolName.maxLength)}`
}

export function fitPropertyName(name: string): string {
  return fit(name, propertyName)
}

/** A call's id in the form of a server. */
export function fitCallId(id: string, form: CallIdForm): string {
  return fit(id, callIds[form])
}

function fit(
  text: string,
  { fits, maxLength }: { readonly fits: RegExp; readonly maxLength: number },
): string {
  if (fits.test(text)) return text
  const digest = hash('sha256', text).slice(0, digestLength)
  const start = text.slice(0, Math.max(0, maxLength - digestLength - 1)).replace(/[^\w-]/g, '_')
  return start === '' ? digest : `${start}_${digest}`
}
