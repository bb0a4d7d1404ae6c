import {
  countJsonMembers,
  duplicateMemberIssue,
  findDuplicateMember,
  hasDuplicateMember,
  invalidInput,
  type Schema,
  type SendMessageRequest,
  sendMessageRequest,
} from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'

/** A frame of a client that is no user message; `code` is what clients of the interface compare. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
  readonly code: 'JSONDecodeError' | 'ValidationError' | 'AssertionError'

  constructor(code: FrameError['code'], message: string) {
    super(message)
    this.code = code
  }
}

const otherRoles: readonly unknown[] = ['assistant', 'system', 'tool']

/**
 * The message of a client text frame: `role` is required here, so that a frame of another kind is no empty
 * message. A FrameError unless the text is one.
 */
export function parseMessageFrame(text: string): SendMessageRequest {
  const value = parseJson(text)
  if (value === undefined) throw new FrameError('JSONDecodeError', 'The frame is not valid JSON')
  const duplicate = duplicateIn(text, value)
  if (duplicate !== undefined)
    throw new FrameError('ValidationError', `${duplicate.join('.')}: ${duplicateMemberIssue.msg}`)
  const { role } = Object(value) as { readonly role?: unknown }
  if (otherRoles.includes(role))
    throw new FrameError('AssertionError', 'Only user messages are allowed to be sent to the agent.')
  const parsed = sendMessageRequest.safeParse(value)
  const issues = parsed.error?.issues.map(({ path, message }) => `${path.join('.')}: ${message}`) ?? []
  if (parsed.data !== undefined && role === 'user') return parsed.data
  if (role === undefined) issues.unshift('role: Field required')
  throw new FrameError(
    'ValidationError',
    `The frame is not a message {"role":"user","content":[...]}: ${issues.join('; ')}`,
  )
}

/** The value of a client text frame; a Problem `invalid` with this detail unless the schema accepts it. */
export function parseFrame<T>(schema: Schema<T>, text: string, detail: string): T {
  const value = parseJson(text)
  if (value === undefined) throw invalidInput(['frame'], 'The frame is not valid JSON', 'json_invalid')
  const duplicate = duplicateIn(text, value)
  if (duplicate !== undefined)
    throw invalidInput(['frame', ...duplicate], duplicateMemberIssue.msg, duplicateMemberIssue.type)
  const parsed = schema.safeParse(value)
  if (!parsed.success) throw invalidInput(['frame'], detail)
  return parsed.data
}

function duplicateIn(text: string, value: unknown): readonly (string | number)[] | undefined {
  const hasDuplicate = hasDuplicateMember(countJsonMembers(Buffer.from(text)), value)
  return hasDuplicate ? findDuplicateMember(text) : undefined
}
