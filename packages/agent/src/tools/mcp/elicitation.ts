import { asRecord } from '@slipway/shared/json'
import { isSecretName } from '@slipway/shared/redaction'
import { firstChars } from '@slipway/shared/text'
import type { AskUser, QuestionAnswer, QuestionField, ServerQuestion } from '../core/server-question.ts'

const maxMessage = 4_000
const maxFields = 50
const maxChoices = 200
/** Characters of the JSON of a question: larger ones are declined. */
const maxQuestionChars = 32_000

/**
 * The answer to `elicitation/create` of a server. Forms that ask for what looks secret are declined without a
 * question: a secret belongs into the settings of the server, and not through the conversation.
 */
export async function answerElicitation(
  server: string,
  params: Readonly<Record<string, unknown>>,
  ask: AskUser,
  signal: AbortSignal,
): Promise<QuestionAnswer> {
  if (JSON.stringify(params).length > maxQuestionChars) return { action: 'decline' }
  const message = firstChars(String(params.message ?? ''), maxMessage)
  if (params.mode === 'url') {
    const address = URL.parse(String(params.url))
    if (address === null || !/^https?:$/.test(address.protocol)) return { action: 'decline' }
    return await ask({ server, message, address: address.href }, signal)
  }
  const { properties, required } = asRecord(params.requestedSchema)
  const names: unknown[] = Array.isArray(required) ? required : []
  const entries = Object.entries(asRecord(properties)).slice(0, maxFields)
  const fields = Object.fromEntries(
    entries.map(([name, schema]) => [name, readField(asRecord(schema), names.includes(name))]),
  )
  if (asksForSecret(fields)) return { action: 'decline' }
  return await ask({ server, message, fields }, signal)
}

function readField(schema: Readonly<Record<string, unknown>>, isRequired: boolean): QuestionField {
  const text = (value: unknown) => (typeof value === 'string' ? firstChars(value, 500) : undefined)
  const type = schema.type === 'array' ? asRecord(schema.items) : schema
  const options: unknown[] = [type.enum, type.oneOf, type.anyOf].find((list) => Array.isArray(list)) ?? []
  const choices = options.map((option) => String(asRecord(option).const ?? option)).slice(0, maxChoices)
  return {
    type: ['number', 'integer', 'boolean', 'array'].includes(String(schema.type))
      ? (schema.type as QuestionField['type'])
      : 'string',
    title: text(schema.title),
    description: text(schema.description),
    ...(choices.length === 0 ? {} : { choices }),
    ...(schema.default === undefined ? {} : { default: schema.default }),
    isRequired,
  }
}

const secretWords = /\b(?:password|passphrase|passcode|api[ -]?key|access token|secret|credentials?)\b/i

/** By the name or the words of a field; choices and switches hold no secret. */
function asksForSecret(fields: NonNullable<ServerQuestion['fields']>): boolean {
  return Object.entries(fields).some(
    ([name, { type, title, description, choices }]) =>
      type !== 'boolean' &&
      choices === undefined &&
      (isSecretName(name) || secretWords.test(`${title} ${description}`)),
  )
}
