import { asRecord } from '@slipway/shared/json'

const headerKey = 'x-mcp-header'
const primitiveTypes: readonly unknown[] = ['string', 'integer', 'boolean']

/**
 * Whether the arguments of a tool can go into headers as its schema wants: each header is a token, unique,
 * and of a simple property that `properties` alone lead to.
 */
export function canSendHeaders(inputSchema: unknown): boolean {
  const names = new Set<string>()
  const isValid = (schema: Readonly<Record<string, unknown>>, isRoot: boolean): boolean => {
    const { properties, [headerKey]: header, type, ...others } = schema
    if (header !== undefined) {
      const isToken = typeof header === 'string' && /^[\w!#$%&'*+.^`|~-]+$/.test(header)
      if (isRoot || !isToken || !primitiveTypes.includes(type) || names.has(header.toLowerCase()))
        return false
      names.add(header.toLowerCase())
    }
    return (
      !JSON.stringify(others).includes(`"${headerKey}":`) &&
      Object.values(asRecord(properties)).every((property) => isValid(asRecord(property), false))
    )
  }
  return isValid(asRecord(inputSchema), true)
}
