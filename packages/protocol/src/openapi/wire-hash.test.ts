import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import { authFrame, eventsSocketQuery, positionedEvent } from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '4fb79c3f32ff359ca28f15c840b045caa860d0c72251fbc680d2226aba5292c8'

test('the wire is what was agreed', () => {
  const sockets = [authFrame, eventsSocketQuery, positionedEvent, bashSocketQuery].map((schema) =>
    z.toJSONSchema(schema, { io: 'input' }),
  )
  const hash = createHash('sha256')
    .update(JSON.stringify([agentServerOpenApi, sandboxServerOpenApi, sockets]))
    .digest('hex')
  expect(hash, 'the wire changed: update the hash and openapi/').toBe(expectedHash)
})
