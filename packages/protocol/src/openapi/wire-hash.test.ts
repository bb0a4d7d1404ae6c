import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '8e6f017157ed087a284ab521ca25852a91552eeb54b808032c5ba72f7451092a'

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
