import { type Llm, Problem } from '@slipway/protocol'
import { type ServerSettings, withModel } from '../settings/server-settings.ts'
import type { ActiveProfile } from './llm-profiles.ts'

/** Keeps which profile is active in the settings, so that it changes in one step with the model that it brings there. */
export class ActiveModel implements ActiveProfile {
  readonly #settings: ServerSettings

  constructor(settings: ServerSettings) {
    this.#settings = settings
  }

  async profile(): Promise<string | undefined> {
    try {
      return (await this.#settings.read()).active_profile
    } catch (error) {
      // Profiles can be listed and changed without the settings.
      if (error instanceof Problem) return undefined
      throw error
    }
  }

  async activate(name: string | undefined, model?: Llm): Promise<void> {
    await this.#settings.change((kept) => {
      const next = model === undefined ? kept : withModel(kept, model)
      return next.active_profile === name ? next : { ...next, active_profile: name }
    })
  }

  async rename(name: string, newName: string): Promise<void> {
    await this.#settings.change((kept) =>
      kept.active_profile === name ? { ...kept, active_profile: newName } : kept,
    )
  }
}
