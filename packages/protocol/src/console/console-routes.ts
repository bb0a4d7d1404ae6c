import * as z from 'zod'
import { ok, successResponses } from '../core/responses.ts'
import { defineRoutes, route } from '../core/route.ts'
import { component, nullAsUndefined, timestamp, withDefault } from '../core/schemas.ts'

/** The header with the page's half of a console session; the cookie is the browser's half. */
export const consoleProofHeader = 'X-Console-Proof'
/** The same in the address of a GET or a WebSocket, where a page cannot set headers. */
export const consoleProofQuery = 'console_proof'

const sessionHeaders = { [consoleProofHeader]: 'The proof that the sign-in answered.' }

const members = {
  server: z.enum(['agent', 'sandbox']),
  version: z.string(),
  auth_required: z.boolean().meta({ description: 'False: every call is answered without signing in.' }),
  signed_in: z.boolean(),
  expires_at: timestamp.nullable(),
  user_id: z.string().nullable(),
  user_name: z.string().nullable(),
  org_id: z.string().nullable(),
  scopes: z.array(z.enum(['read', 'write', 'admin', 'operate'])),
  is_admin: z.boolean(),
}
export const consoleSession = component('ConsoleSession', members)
export type ConsoleSession = z.infer<typeof consoleSession>

/** The routes by which a page of the server's own origin signs in, of both servers. */
export const consoleRoutes = defineRoutes(
  'console',
  {
    getConsoleSession: route.get('/console/session', {
      summary: 'What the server is, and who is signed in',
      open: true,
      headers: sessionHeaders,
      responses: ok('The session.', consoleSession),
    }),
    startConsoleSession: route.post('/console/session', {
      summary: 'Sign in with a one-time token or a key',
      audit: { target: 'key' },
      description:
        'Sets an HttpOnly cookie and answers a proof. Requests of the same origin that have both are authorized as with the key: the proof comes in X-Console-Proof, or as console_proof in the address of a GET or a WebSocket.',
      open: true,
      body: component('StartConsoleSessionRequest', {
        token: nullAsUndefined(z.string().max(200)),
        key: nullAsUndefined(z.string().max(1000)),
        replace: withDefault(z.boolean(), false).meta({
          description:
            'Whether a token may end the session of another user, which the request proves to have.',
        }),
      }),
      responses: {
        ...ok('Signed in.', component('NewConsoleSession', { ...members, proof: z.string() })),
        401: { description: 'The key is wrong, or the token is used or too old.' },
        409: {
          description:
            'The request has the session of another user than that of the token, which stays valid.',
        },
        429: { description: 'Too many wrong keys and tokens.' },
      },
    }),
    endConsoleSession: route.delete('/console/session', {
      summary: 'Sign out',
      audit: { target: 'key' },
      open: true,
      headers: sessionHeaders,
      responses: { ...successResponses, 401: { description: 'There is no such session.' } },
    }),
    createConsoleToken: route.post('/console/tokens', {
      summary: 'Make a token that signs in once',
      audit: { target: 'key' },
      description: 'For a link that opens the console: its address with #token=... at the end.',
      responses: {
        201: {
          description: 'The token.',
          schema: component('ConsoleToken', { token: z.string(), expires_at: timestamp }),
        },
      },
    }),
  },
  { access: 'user' },
)
