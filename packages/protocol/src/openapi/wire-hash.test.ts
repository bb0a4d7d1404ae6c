import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '3b42ee7d163b447cb468ed4a4cd5b6377cce71df7b8d8f7ef6ab19bba081a849'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent, bashSocketQuery].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentServerOpenApi, sandboxServerOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(expectedHash)
})
