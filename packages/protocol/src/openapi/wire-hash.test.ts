import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '3f6aba1d2a2cefbde07b854806d8e4d3ca982504e38b7ef051270ecca0b84e70'

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
