import { expect, test } from 'vitest'
import * as z from 'zod'
import { agentServerRoutes, type Route, sandboxServerRoutes } from './index.ts'

/** The names of all members that an answer may have. */
function memberNames(schema: z.ZodType): string[] {
  const names = new Set<string>()
  JSON.stringify(z.toJSONSchema(schema, { unrepresentable: 'any', io: 'output' }), (member, value) => {
    if (member === 'properties' && typeof value === 'object') for (const name in value) names.add(name)
    return value
  })
  return [...names]
}

test('no answer that is compressed has a member for secrets', () => {
  const routes = [agentServerRoutes, sandboxServerRoutes].flatMap((table) => Object.entries<Route>(table))
  const compressed = routes.filter(([, route]) => route.compressed === true)
  expect(compressed.length).toBeGreaterThan(15)
  const isSecret = /(^|_)(api_key|secrets?|secret_registry|password|token|env|headers)$/
  const found = compressed.flatMap(([name, { responses }]) =>
    Object.values(responses).flatMap(({ schema }) =>
      schema === undefined
        ? []
        : memberNames(schema)
            .filter((member) => isSecret.test(member))
            .map((member) => `${name}: ${member}`),
    ),
  )
  expect(found).toEqual([])
  // The rule sees those that are there.
  expect(
    memberNames(sandboxServerRoutes.searchSandboxes.responses[200].schema).filter((name) =>
      isSecret.test(name),
    ),
  ).toEqual(['session_api_key'])
})
