import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = '17cdd88511b671413d30801546b190e61d17156c45e517ad96d0fb7685a73e1c'
const expectedHash = '1ba8d297b25e1f15eceb71ac9052cb52fcc245ba74d588d010aab17b5dcb7965'
const expectedHash = 'dad89c75334ad4a0a3834a24578efd9b6d6fabd74aca79919ee6dc1990404b54'
const expectedHash = '62e3b68f05ff68d8f61ccf35383e20d036bdf73a157ab474daa2d79f407a180b'
const expectedHash = '0d945bbf7a86344f049dbffdd8e22c78e5f6c7d37a6d4cc636e5d5a980377810'

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
