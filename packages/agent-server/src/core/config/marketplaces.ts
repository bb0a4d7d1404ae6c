import { parseSource } from '@slipway/agent'
import { type MarketplaceRegistration, marketplaceRegistration, validationIssues } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { findSecretTexts, minSecretLength, Secret } from '@slipway/shared/redaction'

const variableName = 'SLIPWAY_MARKETPLACES'

/** The marketplaces of the environment, a JSON array. Throws an Error that names the issue, not a value. */
export function parseMarketplaces(text: string): MarketplaceRegistration[] {
  if (text.trim() === '') return []
  const value = parseJson(text)
  if (value === undefined) throw new Error(`${variableName}: it is not JSON`)
  if (!Array.isArray(value)) throw new Error(`${variableName}: it is not a JSON array`)
  const names = new Set<string>()
  return value.map((item, index) => {
    const location = `${variableName}[${index}]`
    const result = marketplaceRegistration.safeParse(item)
    if (!result.success) {
      const [issue] = validationIssues(result.error, [], item)
      throw new Error(`${location}: ${issue?.loc.join('.') ?? ''}: ${issue?.msg ?? 'it is no marketplace'}`)
    }
    const source = parseSource(result.data)
    if ('issue' in source) throw new Error(`${location}.${source.member}: ${source.issue}`)
    if (names.has(result.data.name)) throw new Error(`${location}.name: there are two of this name`)
    names.add(result.data.name)
    return result.data
  })
}

/** The source of public skills in the environment. Throws as above. */
export function parseSkillsSource(source: string): string | undefined {
  if (source.trim() === '') return undefined
  const read = parseSource({ source, ref: undefined, repo_path: undefined })
  if ('issue' in read) throw new Error(`SLIPWAY_SKILLS_SOURCE: ${read.issue}`)
  return source.trim()
}

/** Secrets in the addresses of sources. */
export function findSourceSecrets(value: unknown): Secret[] {
  const texts = findSecretTexts(value).filter(
    ({ text, isNamed }) => isNamed && text.length >= minSecretLength,
  )
  return texts.map(({ text }) => new Secret(text))
}
