import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentOpenApi, controlOpenApi } from './openapi.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from './socket.ts'

/** Changes with the wire and with nothing else. */
const committed = '3d940bddddb5c54b01ca228c33c2d6d5123f35abb09c4563b0fdf33fd7bfa086'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentOpenApi, controlOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(committed)
})
