import { isRecord } from '@slipway/shared/json'
import * as z from 'zod'

/** Members that clients of other servers send for the content of a message. */
const contentLike = ['text', 'message', 'prompt', 'input', 'body']

/**
 * A message that has content: without any it is refused, with the name of a member that may be meant, because
 * unknown members are ignored.
 */
export function withContent<S extends z.ZodObject>(schema: S) {
  return z.preprocess((value: z.input<S>, ctx) => {
    if (
      isRecord(value) &&
      isEmpty(value.content) &&
      isEmpty(value.extended_content) &&
      hasUserRole(value.role)
    ) {
      const other = contentLike.find((name) => !isEmpty(value[name]) && !(name in schema.shape))
      const hint = other === undefined ? '' : `; the member \`${other}\` is unknown and ignored`
      ctx.addIssue({
        code: 'custom',
        params: { type: 'missing' },
        path: ['content'],
        message: `A message needs content: [{"type":"text","text":"..."}]${hint}`,
      })
    }
    return value
  }, schema)
}

/** Other roles are refused for what they are. */
function hasUserRole(role: unknown): boolean {
  return role === undefined || role === 'user'
}

function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0)
}
