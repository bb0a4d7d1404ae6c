import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from './bash.ts'
import { agentOpenApi, controlOpenApi } from './openapi.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from './socket.ts'

/** Changes with the wire and with nothing else. */
const committed = '6d13fb6f37ce046443602e5eb48747d5ca4d0eb5ba5a0168c4280c326f753c13'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent, bashSocketQuery].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentOpenApi, controlOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(committed)
})
