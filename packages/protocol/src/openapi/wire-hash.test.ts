import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import { authFrame, eventsSocketQuery, positionedEvent, resyncFrame } from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '2bb9ca4a6d0c49e23dff5546190fd4018a0824966474116cbeb8749c648577b2'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent, resyncFrame, bashSocketQuery].map(
    (schema) => z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentServerOpenApi, sandboxServerOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(expectedHash)
})
