import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentOpenApi } from './openapi.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from './socket.ts'

/** Changes with the wire and with nothing else. */
const committed = 'abc939cee2efd4cf9a78607cd5f6269f3c6c3181599f70553398c6e46ab9ce28'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(committed)
})
