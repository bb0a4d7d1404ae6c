import { expect, test } from 'vitest'
import { AuditTrail } from './audit-trail.ts'

test('a request that removes many rows costs little for each, and its line says what became of its target', () => {
  const route = { action: 'deleteUser', method: 'DELETE', route: '/users', request_id: 'r' }
  const trail = new AuditTrail({ ...route, target_type: 'user' }, 5)
  trail.target = 'u'
  const startedMs = performance.now()
  const keep = (type: string, id: string) => {
    const changes = [{ type, id, key: `${type} ${id}`, before: { owner: 'u' }, after: undefined }]
    const row = trail.toRow(changes)
    trail.keep(changes)
    return row
  }
  for (let at = 0; at < 5_000; at++) keep('conversation', `c${at}`)
  const { before } = keep('user', 'u')
  expect(before).toMatchObject({ owner: 'u' })
  expect(before?.conversations).toHaveLength(50)
  expect(performance.now() - startedMs).toBeLessThan(5_000)
})
