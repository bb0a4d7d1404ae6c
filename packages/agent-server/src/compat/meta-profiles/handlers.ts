import type { Handlers } from '@slipway/http'
import type { metaProfileRoutes } from '@slipway/protocol'
import type { MetaProfiles } from './meta-profiles.ts'

export function metaProfileHandlers(options: {
  readonly profiles: MetaProfiles
}): Handlers<typeof metaProfileRoutes> {
  const { profiles: metaProfiles } = options
  return {
    async listMetaProfiles() {
      const meta_profiles = (await metaProfiles.list()).map(({ name, config }) => {
        return { name, classifier_model: config.classifier_model, num_classes: config.classes.length }
      })
      return { json: { meta_profiles, active_meta_profile: await metaProfiles.getActiveName() } }
    },
    getMetaProfile: async ({ params: { name } }) => ({ json: await metaProfiles.getOrThrow(name) }),
    async saveMetaProfile({ params: { name }, body }) {
      await metaProfiles.save(name, body)
      return { status: 201, json: { name, message: `Meta-profile '${name}' saved` } }
    },
    async deleteMetaProfile({ params: { name } }) {
      await metaProfiles.remove(name)
      return { json: { name, message: `Meta-profile '${name}' deleted` } }
    },
    async activateMetaProfile({ params: { name } }) {
      await metaProfiles.activate(name)
      return { json: { name, message: `Meta-profile '${name}' activated` } }
    },
  }
}
