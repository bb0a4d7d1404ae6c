import * as z from 'zod'
import { keyScopes } from '../../core/route.ts'
import {
  boundedText,
  component,
  dateTimeText,
  nullAsUndefined,
  timestamp,
  uuid,
  withDefault,
} from '../../core/schemas.ts'

const scope = z.enum(keyScopes).meta({ id: 'KeyScope' })

export const scopedKeyInfo = component('ScopedKey', {
  id: z.string(),
  name: z.string(),
  scopes: z.array(scope),
  conversation_id: z.string().nullable().meta({ description: 'The only conversation that it opens.' }),
  created_at: timestamp,
  expires_at: timestamp.nullable(),
})
export type ScopedKeyInfo = z.output<typeof scopedKeyInfo>

/** As a server stores it: the SHA-256 of the key in place of the key. */
export const storedScopedKey = z.object({
  ...scopedKeyInfo.shape,
  digest: z.string().regex(/^[0-9a-f]{64}$/),
})
export type StoredScopedKey = z.output<typeof storedScopedKey>

/** The key itself is in this answer and in no other. */
export const newScopedKey = scopedKeyInfo.extend({ key: z.string() }).meta({ id: 'NewScopedKey' })

export const createScopedKeyRequest = component('CreateScopedKeyRequest', {
  name: boundedText(1, 200),
  scopes: withDefault(z.array(scope).min(1), ['read']).meta({
    description:
      'read: logs, files and searches. act: messages, runs, pauses, starts through /mcp. answer: also the answers to what waits for a person.',
  }),
  conversation_id: nullAsUndefined(uuid).meta({
    description: 'Binds the key to this conversation: it sees no other, and answers nothing.',
  }),
  expires_at: nullAsUndefined(dateTimeText.meta({ format: 'date-time' })),
})
export type CreateScopedKeyRequest = z.output<typeof createScopedKeyRequest>
