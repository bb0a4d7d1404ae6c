import * as z from 'zod'
import { ok, unreadableResponses } from '../../core/responses.ts'
import { defineRoutes, route } from '../../core/route.ts'
import { component } from '../../core/schemas.ts'
import { metaProfile, namedMetaProfile } from '../llm/meta-profile.ts'
import { profileName } from '../llm/profile-name.ts'

const nameParams = z.object({ name: profileName })
const mutationResponse = {
  description: 'What was done.',
  schema: component('MetaProfileMutationResponse', { name: z.string(), message: z.string() }),
}
const invalidResponse = { 400: { description: 'The stored rule is not valid.' } }

export const metaProfileRoutes = defineRoutes('meta-profiles', {
  listMetaProfiles: route.get('/api/meta-profiles', {
    summary: 'List the rules that choose a model for a task',
    responses: {
      ...ok(
        'All of them, in order of name.',
        component('MetaProfileList', {
          meta_profiles: z.array(
            component('MetaProfileInfo', {
              name: z.string(),
              classifier_model: z.string(),
              num_classes: z.int(),
            }),
          ),
          active_meta_profile: z.string().nullable(),
        }),
      ),
      ...unreadableResponses,
    },
  }),
  getMetaProfile: route.get('/api/meta-profiles/{name}', {
    summary: 'Get a rule that chooses a model',
    params: nameParams,
    responses: { ...ok('The rule.', namedMetaProfile), ...invalidResponse, ...unreadableResponses },
  }),
  saveMetaProfile: route.post('/api/meta-profiles/{name}', {
    summary: 'Save a rule that chooses a model',
    description: 'One of the same name is replaced. Whether its LLM profiles exist is not checked.',
    params: nameParams,
    body: metaProfile,
    responses: {
      201: mutationResponse,
      409: { description: 'There are as many rules as there may be, or what is kept cannot be read.' },
    },
  }),
  deleteMetaProfile: route.delete('/api/meta-profiles/{name}', {
    summary: 'Delete a rule that chooses a model',
    description: 'Done as well when there is none of the name. The settings forget the active one.',
    params: nameParams,
    responses: { 200: mutationResponse, ...unreadableResponses },
  }),
  activateMetaProfile: route.post('/api/meta-profiles/{name}/activate', {
    summary: 'Give new conversations the tool that chooses a model by this rule',
    description: 'The settings of agents name it and have a copy; their model stays.',
    params: nameParams,
    responses: {
      200: mutationResponse,
      ...invalidResponse,
      409: { description: 'The settings are those of another program, or what is kept cannot be read.' },
    },
  }),
})
