import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import { authFrame, eventsSocketQuery, positionedEvent, resyncFrame } from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '428b95db316e211c04272b5d6df96217e4f428dd72069b805755a0f3df6046c6'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent, resyncFrame, bashSocketQuery].map(
    (schema) => z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentServerOpenApi, sandboxServerOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(expectedHash)
})
