import * as z from 'zod'
import { component, nullAsUndefined, nullByDefault, withDefault } from '../../core/schemas.ts'
import { profileName } from './profile-name.ts'

const longText = z.string().max(100_000)
const instanceText = /\{\{\s*instance_text\s*\}\}/

const metaProfileClass = component('MetaProfileClass', {
  description: z.string().min(1).max(10_000),
  model: profileName.meta({ description: 'The LLM profile for such tasks.' }),
})

/**
 * A rule that chooses an LLM profile for a task: `classifier_model` picks one of the classes, or answers
 * `prompt_template` with the name of a profile. Profiles are named, need not be there yet, and bring the
 * secrets: a rule has none.
 */
export const metaProfile = z
  .object({
    classifier_model: profileName.meta({ description: 'The LLM profile that is asked.' }),
    classes: withDefault(z.array(metaProfileClass).max(100), []),
    prompt_template: nullByDefault(longText).meta({
      pattern: instanceText.source,
      description:
        'Instead of classes: has {{ instance_text }} for the newest messages, and may have {{ model_table }}. The answer is {"model": NAME}.',
    }),
    model_table: nullByDefault(longText),
    default_model: nullAsUndefined(profileName).meta({
      description: 'The LLM profile when nothing fits; without it the model stays.',
    }),
  })
  .refine(({ classes, prompt_template }) => (prompt_template === null) === classes.length > 0, {
    message: 'Either classes or a prompt_template is needed, not both',
    path: ['classes'],
  })
  .refine(({ prompt_template: text }) => text === null || instanceText.test(text), {
    message: 'The template lacks {{ instance_text }}',
    path: ['prompt_template'],
  })
  .meta({ id: 'MetaProfile' })
export type MetaProfile = z.output<typeof metaProfile>

/** A saved rule. */
export const namedMetaProfile = component('MetaProfileDetail', { name: profileName, config: metaProfile })
export type NamedMetaProfile = z.output<typeof namedMetaProfile>
