import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentOpenApi } from './openapi.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from './socket.ts'

/** Changes with the wire and with nothing else. */
const committed = '8e6d10aaa8cb9ad160117708d40cfc29bd1a3ed94d680e7723785262de33c1a7'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(committed)
})
