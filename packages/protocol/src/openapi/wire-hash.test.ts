import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '60b0a6d4261c5b473ce1f966d03d68c08508f2d9aebb45936e5bca93e9c54842'
const expectedHash = '782d646d6df7c44fac2ab809affb66499a2e36a0b43a53a7965cd1a701ed7f97'

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
