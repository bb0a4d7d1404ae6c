import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentOpenApi } from './openapi.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from './socket.ts'

/** Changes with the wire and with nothing else. */
const committed = '8f0a7cd191acb7d2deb0fce1414d735ef10e66ea27a95f097a9b2ca7ffcea990'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(committed)
})
