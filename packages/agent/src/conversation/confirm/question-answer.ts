import { isRecord, parseJson } from '@slipway/shared/json'
import type { QuestionField, QuestionValue } from '../../tools/core/server-question.ts'

type Fields = Readonly<Record<string, QuestionField>>

/**
 * The values that a message gives for the fields of a question: a JSON object, lines of `name: value`, or the
 * value alone where one field is wanted. Undefined when it does not answer all required fields.
 */
export function readAnswer(fields: Fields, text: string): Record<string, QuestionValue> | undefined {
  const entries = Object.entries(fields)
  if (entries.length === 0) return undefined
  const given = readMembers(fields, text) ?? readOnlyValue(entries, text)
  if (given === undefined) return undefined
  const content: Record<string, QuestionValue> = {}
  for (const [name, field] of entries) {
    const value = given[name] === undefined ? field.default : readValue(field, given[name])
    if (value === undefined && (field.isRequired || given[name] !== undefined)) return undefined
    if (value !== undefined) content[name] = value as QuestionValue
  }
  return content
}

function readMembers(fields: Fields, text: string): Record<string, unknown> | undefined {
  const parsed = parseJson(text)
  if (isRecord(parsed)) return parsed
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  const members = lines.map((line) => /^\s*([^:=]+?)\s*[:=]\s*(.*?)\s*$/.exec(line))
  if (
    members.length === 0 ||
    !members.every((found) => found !== null && Object.hasOwn(fields, found[1] ?? ''))
  )
    return undefined
  return Object.fromEntries(members.map((found) => [found?.[1], found?.[2]]))
}

function readOnlyValue(
  entries: readonly (readonly [string, QuestionField])[],
  text: string,
): Record<string, unknown> | undefined {
  const required = entries.filter(([, { isRequired }]) => isRequired)
  const [only, other] = required.length === 0 ? entries : required
  return only === undefined || other !== undefined ? undefined : { [only[0]]: text.trim() }
}

/** Undefined when the value does not fit its field. */
function readValue({ type, choices }: QuestionField, value: unknown): QuestionValue | undefined {
  if (type === 'boolean') return readBoolean(value)
  if (type === 'number' || type === 'integer') {
    const number = typeof value === 'string' && value !== '' ? Number(value) : value
    const isFit = typeof number === 'number' && Number.isFinite(number)
    return isFit && (type === 'number' || Number.isInteger(number)) ? number : undefined
  }
  const isChoice = (text: string) => choices === undefined || choices.includes(text)
  if (type === 'array') {
    const parts: unknown[] = Array.isArray(value) ? value : String(value).split(',')
    const texts = parts.map((part) => String(part).trim())
    return texts.every(isChoice) ? texts : undefined
  }
  return typeof value === 'string' && isChoice(value) ? value : undefined
}

function readBoolean(value: unknown): boolean | undefined {
  if (typeof value === 'boolean') return value
  if (/^(?:yes|y|true|on)$/i.test(String(value))) return true
  return /^(?:no|n|false|off)$/i.test(String(value)) ? false : undefined
}
