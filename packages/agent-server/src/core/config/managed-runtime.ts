import { type LaunchedProfile, launchedProfile, validationIssues, withoutSlash } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import { minSecretLength, Secret } from '@slipway/shared/redaction'
import { findSourceSecrets } from './marketplaces.ts'

/** What a control plane tells the agent servers that it starts. */

const baseUrlsName = 'SLIPWAY_LLM_API_KEY_REFRESH_BASE_URLS'
const headersName = 'SLIPWAY_LLM_API_KEY_REFRESH_HEADERS'
const profileName = 'SLIPWAY_RUNTIME_LAUNCHED_PROFILE'

interface KeyRefreshSettings {
  /** Answers with the present key as text. */
  readonly url: Secret
  /** The only base URLs of models to which that key may be sent, without a slash at the end. */
  readonly baseUrls: readonly string[]
  readonly headers: Readonly<Record<string, Secret>>
  /** Of the URL and the headers. */
  readonly secrets: readonly Secret[]
}

/**
 * Where rejected keys of models are fetched again; undefined without a URL. `$NAME` and `${NAME}`
 * in values of headers are variables of `env`. Throws an Error that names the variable at fault and
 * never shows its value.
 */
export function readKeyRefresh(
  values: {
    readonly url?: Secret | undefined
    readonly baseUrls: readonly string[]
    readonly headers?: Secret | undefined
  },
  env: Readonly<Record<string, string | undefined>>,
): KeyRefreshSettings | undefined {
  const { url } = values
  const headers = parseJson(values.headers?.reveal() ?? '{}')
  if (!isRecord(headers)) throw new Error(`${headersName}: it is not a JSON object`)
  const expanded = Object.entries(headers).map(([name, value]) => {
    const expandedValue = typeof value === 'string' ? expandVariables(value, env) : '\n'
    if (!/^[!#$%&'*+.^`|~\w-]+$/.test(name) || /[^\t\x20-\x7e\x80-\xff]/.test(expandedValue))
      throw new Error(`${headersName}: Should have names of headers and their values`)
    return [name, expandedValue] as const
  })
  const baseUrls = values.baseUrls.map(withoutSlash)
  if (!baseUrls.every((base) => /^https?:/.test(base) && URL.canParse(base)))
    throw new Error(`${baseUrlsName}: Should be URLs https://..., separated by commas`)
  if (url === undefined) return undefined
  return {
    url,
    baseUrls,
    headers: Object.fromEntries(expanded.map(([name, value]) => [name, new Secret(value)])),
    secrets: [
      ...findSourceSecrets({ url: url.reveal() }),
      ...expanded.flatMap(([, value]) => (value.length < minSecretLength ? [] : [new Secret(value)])),
    ],
  }
}

function expandVariables(text: string, env: Readonly<Record<string, string | undefined>>): string {
  return text.replace(/\$(?:\{(\w+)\}|(\w+))/g, (whole, braced, plain) => env[braced ?? plain] ?? whole)
}

/** The profile of conversations that name none. Throws as above. */
export function parseLaunchedProfile(text: string): LaunchedProfile {
  const value = parseJson(text)
  const result = launchedProfile.safeParse(value)
  if (result.success) return result.data
  const [issue] = validationIssues(result.error, [], value)
  throw new Error([profileName, ...(issue?.loc ?? []), issue?.msg].join(': '))
}
