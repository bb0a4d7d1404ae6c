import { readSource } from '@slipway/agent'
import {
  faultsOf,
  type MarketplaceRegistration,
  marketplaceRegistration,
  Secret,
  secretTexts,
} from '@slipway/protocol'

const variable = 'SLIPWAY_MARKETPLACES'
const minSecretLength = 8

/** The marketplaces that the environment names, a JSON array. Throws an Error that names the fault and never shows a value. */
export function marketplacesOf(text: string | undefined): MarketplaceRegistration[] {
  if (text === undefined || text.trim() === '') return []
  const value = json(text)
  if (!Array.isArray(value)) throw new Error(`${variable}: it is not a JSON array`)
  const names = new Set<string>()
  return value.map((item, index) => {
    const place = `${variable}[${index}]`
    const result = marketplaceRegistration.safeParse(item)
    if (!result.success) {
      const [fault] = faultsOf(result.error, [], item)
      throw new Error(`${place}: ${fault?.loc.join('.') ?? ''}: ${fault?.msg ?? 'it is no marketplace'}`)
    }
    const source = readSource(result.data)
    if ('fault' in source) throw new Error(`${place}.${source.member}: ${source.fault}`)
    if (names.has(result.data.name)) throw new Error(`${place}.name: there are two of this name`)
    names.add(result.data.name)
    return result.data
  })
}

/** The collection of public skills that the environment names. Throws as above. */
export function skillsSourceOf(source: string | undefined): string | undefined {
  if (source === undefined || source.trim() === '') return undefined
  const read = readSource({ source, ref: undefined, repo_path: undefined })
  if ('fault' in read) throw new Error(`SLIPWAY_SKILLS_SOURCE: ${read.fault}`)
  return source.trim()
}

/** What in the addresses of sources is a secret. */
export function secretsOfSources(value: unknown): Secret[] {
  const texts = secretTexts(value).filter(({ text, isNamed }) => isNamed && text.length >= minSecretLength)
  return texts.map(({ text }) => new Secret(text))
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error(`${variable}: it is not JSON`)
  }
}
