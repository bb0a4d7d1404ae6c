import { type Route, sandboxServerRoutes } from '@slipway/protocol'
import { expect, test } from 'vitest'

/** Routes that change nothing of users and administrators, or would fill the audit. */
const withoutLine: Readonly<Record<string, string>> = {
  receiveConversation: 'agent servers report what became of conversations, many times in each run',
  receiveEvents: 'agent servers send the events of conversations, many times in each run',
  reserveBudget: 'agent servers reserve the cost of model calls, many times in each run',
  settleBudget: 'agent servers settle it, as often',
  previewMarketplaces: 'reads catalogues and stores nothing',
}

const changing = Object.entries<Route>(sandboxServerRoutes).filter(
  ([, { method, audit }]) => method !== 'GET' || audit !== undefined,
)

test('every route that changes something declares its line of the audit', async () => {
  const undeclared = changing.filter(([, { audit }]) => typeof audit !== 'object').map(([name]) => name)
  expect(undeclared.sort()).toEqual(Object.keys(withoutLine).sort())
  for (const [name, route] of changing) {
    const { audit, params, body } = route
    if (typeof audit !== 'object' || audit.id === undefined) continue
    const members = { ...params?.shape, ...(body !== undefined && 'shape' in body ? Object(body.shape) : {}) }
    expect(Object.keys(members), `${name}: ${audit.id}`).toContain(audit.id)
  }
  await expect(toPage()).toMatchFileSnapshot('../../../../docs/reference/audit.md')
})

function toPage(): string {
  const rows = changing.map(([name, { method, path, audit }]) => {
    const target =
      typeof audit === 'object'
        ? `${audit.target.replace('_', ' ')}${audit.id === undefined ? '' : ` \`${audit.id}\``}`
        : `no line: ${withoutLine[name]}`
    return `| \`${name}\` | \`${method} ${path}\` | ${target} |`
  })
  return `# Audit of the sandbox server

Each operation that changes something, or shows a secret, and what its line in the audit is about. Without a
name of a parameter the target is what the request created, or belongs to the caller.

| operation | request | about |
|---|---|---|
${rows.join('\n')}
`
}
