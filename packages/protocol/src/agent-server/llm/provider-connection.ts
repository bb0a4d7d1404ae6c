import * as z from 'zod'
import { boundedText, component, strictComponent } from '../../core/schemas.ts'

const name = boundedText(1, 128)
  .refine((text) => text.trim() !== '', 'A name is more than blanks')
  .meta({ minLength: 1, maxLength: 128, pattern: '\\S' })
const apiKey = z.string().max(100_000)

/** `http` or `https`, without a user: a key has its own member. Blank is none. */
const baseUrl = z
  .string()
  .max(2000)
  .transform((text) => (text.trim() === '' ? null : text.trim()))
  .refine(isHttpUrl, { message: 'It is no http or https address without a user and a password' })
  .nullable()
  .meta({ pattern: '^\\s*(?:https?://\\S+\\s*)?$' })

function isHttpUrl(text: string | null): boolean {
  if (text === null) return true
  const url = URL.parse(text)
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

/** A key and an address that profiles share. Times are seconds since 1970. Answers omit the key. */
export const providerConnection = component('ProviderConnection', {
  id: z.string(),
  display_name: z.string(),
  provider: z.string(),
  base_url: z.string().nullable(),
  created_at: z.number(),
  updated_at: z.number(),
  api_key_set: z.boolean(),
})
export type ProviderConnection = z.infer<typeof providerConnection>

/** Unknown members are refused. */
export const createProviderConnectionRequest = strictComponent('ProviderConnectionCreateRequest', {
  display_name: name,
  provider: name.default('custom'),
  api_key: apiKey,
  base_url: baseUrl.default(null),
})
export type NewProviderConnection = z.output<typeof createProviderConnectionRequest>

/** At least one member; `base_url: null` removes the address. Unknown members are refused. */
export const updateProviderConnectionRequest = z
  .strictObject({
    display_name: name.optional(),
    provider: name.optional(),
    api_key: z
      .string({ error: () => 'api_key cannot be cleared; provide a new key to rotate it' })
      .max(100_000)
      .optional(),
    base_url: baseUrl.optional(),
  })
  .refine((body) => Object.values(body).some((member) => member !== undefined), {
    message: 'Provide at least one provider connection field to update',
    when: ({ issues }) => issues.length === 0,
  })
  .meta({ id: 'ProviderConnectionUpdateRequest', minProperties: 1 })
export type ProviderConnectionChange = z.output<typeof updateProviderConnectionRequest>
