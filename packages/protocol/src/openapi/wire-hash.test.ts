import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '8d1cc11c26d1f34eb9d1bda29590a4cd9fbce5ca47b4bd8d73d0ca05f973c86a'

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
