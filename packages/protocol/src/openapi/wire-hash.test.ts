import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '865b20820f48ee4ebe22c4c2502c0f047e151c9cfb392687a20a8091f834f5bc'

test('the wire is what was agreed', () => {
  const { authFrame, eventsSocketQuery, positionedEvent, resyncFrame } = socketSchemas
  const { sessionSocketQuery, sessionFrame } = socketSchemas
  const sockets = [
    ...[authFrame, eventsSocketQuery, positionedEvent, resyncFrame, bashSocketQuery],
    ...[sessionSocketQuery, sessionFrame],
  ].map((schema) => z.toJSONSchema(schema, { io: 'input' }))
  const hash = createHash('sha256')
    .update(JSON.stringify([agentServerOpenApi, sandboxServerOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(expectedHash)
})
