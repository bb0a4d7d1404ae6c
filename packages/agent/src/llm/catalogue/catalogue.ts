import { findProvider } from '@pydantic/genai-prices'
import { isOpenaiName, providerNames } from '../route.ts'
import { pricedProviders } from './prices.ts'
import verifiedModelNames from './verified-models.json' with { type: 'json' }

/** The models that clients offer first, by provider, the best first: made for agents that call tools. */
const verifiedModels: Readonly<Record<string, readonly string[]>> = verifiedModelNames

/** Azure's names are those of the user's own deployments; `google` is another name of `gemini`. */
const listed = new Map([...pricedProviders].filter(([name]) => name !== 'azure' && name !== 'google'))

/** Models for sound, images or embeddings, and names of families. */
const nonChatModels =
  /embed|whisper|moderation|transcribe|realtime|audio|speech|voice|voxtral|sonic|-tts|-image|image-|-live|ocr|guard|titan|^ft:|\.ft-|^(?:ada|babbage|curie|davinci)$|^text-|^computer-use$|-vision-preview$/

export interface Catalogue {
  /** The prefixes of model names, sorted. */
  providers(): string[]
  /**
   * `provider/model` names, sorted: of one provider, none for an unknown one, or of all but Bedrock, whose
   * models need AWS credentials.
   */
  models(provider?: string): string[]
  /** By provider, without the prefix; the best first. */
  verified(): Record<string, string[]>
}

/** The models of the bundled price list; fetches nothing. */
export function catalogue(): Catalogue {
  const modelsOf = (provider: string) => {
    const found = findProvider({ providerId: listed.get(provider) ?? '' })
    const models = found?.models ?? []
    const names = models.filter(({ deprecated }) => !deprecated).map(({ id }) => id)
    const isSold = soldNames[provider] ?? ((name) => !name.includes(':'))
    const own = names.filter((name) => !nonChatModels.test(name) && isSold(name))
    return [...new Set([...(verifiedModels[provider] ?? []), ...own])].map((name) => `${provider}/${name}`)
  }
  return {
    providers: () => [...providerNames()].sort(),
    models: (provider) =>
      [...listed.keys()]
        .filter((name) => (provider === undefined ? name !== 'bedrock' : name === provider))
        .flatMap(modelsOf)
        .sort(),
    verified: () =>
      Object.fromEntries(Object.entries(verifiedModels).map(([name, models]) => [name, [...models]])),
  }
}

/** The list also has families, regions and resellers, which the provider itself does not know. */
const soldNames: Readonly<Record<string, (name: string) => boolean>> = {
  openai: (name) => isOpenaiName(name) && !/:|-instruct$|deep-research|-search-/.test(name),
  anthropic: (name) => !/^claude-v?\d/.test(name),
  gemini: (name) => /^gemini-(?:[2-9]|\d\d)/.test(name),
  bedrock: (name) => !name.startsWith('regional.'),
  openrouter: (name) => name.includes('/'),
}
