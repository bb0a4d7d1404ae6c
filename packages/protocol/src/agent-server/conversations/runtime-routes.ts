import * as z from 'zod'
import { ok } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { strictComponent, withDefault } from '../../core/schemas.ts'
import { conversationParams, runtimeInfo } from './conversation.ts'

const headerName = /^[!#$%&'*+.^`|~\w-]{1,256}$/
const headerValue = /^[\t\x20-\x7e\x80-\xff]{1,8192}$/
const headers = z
  .record(z.string(), z.string())
  .refine(
    (headers) =>
      Object.keys(headers).length <= 16 &&
      Object.entries(headers).every(([name, value]) => headerName.test(name) && headerValue.test(value)),
    { message: 'Invalid credential binding headers' },
  )

/** Where a credential lives, and what a request for it carries. */
export const credentialBinding = strictComponent('CredentialBinding', {
  url: z.string().min(1).max(4_096),
  headers: withDefault(headers, {}),
})

const runtimeResponses = ok('Its state.', runtimeInfo)

/** Where a conversation runs. */
export const runtimeRoutes = defineRoutes('conversations', {
  getRuntime: route.get('/api/conversations/{conversation_id}/runtime', {
    summary: 'Is the place where a conversation runs there?',
    params: conversationParams,
    responses: runtimeResponses,
  }),
  reprovisionRuntime: route.post('/api/conversations/{conversation_id}/runtime/reprovision', {
    summary: 'Make the place where a conversation runs again',
    description: 'Conversations run in this server, so there is nothing to do.',
    params: conversationParams,
    responses: runtimeResponses,
  }),
})

/** Where credentials of external agents come from. */
export const credentialBindingRoutes = defineRoutes('conversations', {
  activateCredentialBinding: route.put(
    '/api/conversations/{conversation_id}/credential-bindings/{secret_name}',
    {
      summary: 'Say where the credential of an external agent lives',
      description:
        'The source is asked at once. From then on nothing of the conversation runs without it: after a pause or a restart it is bound again. A conversation that does not exist yet takes it when it is created.',
      unlisted: true,
      params: conversationParams.extend({ secret_name: z.string() }),
      body: credentialBinding,
      responses: {
        204: { description: 'It is bound.' },
        404: { description: 'No credential of this name is bound.' },
        409: {
          description:
            'The conversation uses no such credential, or has begun without it or with another source.',
        },
        501: { description: 'The source does not support it.' },
        502: { description: 'The source does not answer.' },
      },
    },
  ),
})
