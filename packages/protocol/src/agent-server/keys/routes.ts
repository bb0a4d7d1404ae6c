import * as z from 'zod'
import { ok, successResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { createScopedKeyRequest, newScopedKey, scopedKeyInfo } from './keys.ts'

/** Keys that may do less than a session key, which alone manages them. */
export const keyRoutes = defineRoutes('keys', {
  listKeys: route.get('/api/keys', {
    summary: 'List the keys with scopes',
    responses: ok('All of them, the newest first.', z.array(scopedKeyInfo)),
  }),
  createKey: route.post('/api/keys', {
    summary: 'Make a key with scopes; it is shown in this answer only',
    description:
      'Sent as a session key or as Authorization: Bearer, it opens the routes of its scopes. A session key opens all.',
    body: createScopedKeyRequest,
    responses: {
      201: { description: 'The key.', schema: newScopedKey },
      404: { description: 'There is no such conversation.' },
      409: { description: 'The server requires no key, or there are too many.' },
    },
    example: { name: 'assistant', scopes: ['read'], expires_at: '2099-01-01T00:00:00Z' },
  }),
  deleteKey: route.delete('/api/keys/{key_id}', {
    summary: 'Revoke a key with scopes',
    params: z.object({ key_id: z.string() }),
    responses: { ...successResponses, 404: { description: 'There is no such key.' } },
  }),
})
