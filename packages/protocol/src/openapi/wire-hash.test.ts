import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { bashSocketQuery } from '../agent-server/bash/bash.ts'
import * as socketSchemas from '../events/socket.ts'
import { agentServerOpenApi, sandboxServerOpenApi } from './openapi.ts'

/** Changes with the wire and with nothing else. */
const expectedHash = 'fe27032b1714498d5217f85774762a95c2661b9c37f39e11d64a296436673a4c'
const expectedHash = '7ca77f1ded3f6725b9adcd199c7a29ed6fe05e88f7401199c1715f6bb0650c79'
const expectedHash = 'd68f4f8cf19f22030dae76c94eb7fdb06e1888287548f076f45053f295cefa7d'
const expectedHash = 'bfa372899d328fad9895bd27cdd8706242c55cb734a8f2fc146669900acc6e0d'
const expectedHash = '94e5d40d4ce2b7a68b762e9e8e9a8f1ab7af869d44fc761613b6c4fc65f29e78'

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
