import { expect, test } from 'vitest'
import { profileName } from '../llm/profile-name.ts'
import { saveProfileRequest } from './llm-profile.ts'

test.each(['a', '9', 'gpt-5.5_mini', 'A..', 'x'.repeat(64)])('%j is the name of a profile', (name) => {
  expect(profileName.safeParse(name).success).toBe(true)
})

test.each(['', '.a', '_a', '-a', 'a b', 'a/b', '..', 'a\n', 'ä', 'x'.repeat(65)])('%j is none', (name) => {
  expect(profileName.safeParse(name).success).toBe(false)
})

test('secrets are stored unless declined', () => {
  const request = saveProfileRequest.parse({ llm: { model: 'm', api_key: 'k' }, unheard_of: 1 })
  expect(request).toMatchObject({ llm: { model: 'm', api_key: 'k' }, include_secrets: true })
  expect(request).not.toHaveProperty('unheard_of')
})
