import { type Llm, Problem } from '@slipway/protocol'
import { type ServerSettings, withAgentLlm } from '../settings/server-settings.ts'
import type { ActiveProfileStore } from './llm-profiles.ts'

/** Stores the active profile in the settings, so that it changes in one update with their model. */
export class SettingsActiveProfile implements ActiveProfileStore {
  readonly #settings: ServerSettings

  constructor(settings: ServerSettings) {
    this.#settings = settings
  }

  async getName(): Promise<string | undefined> {
    try {
      return (await this.#settings.read()).active_profile
    } catch (error) {
      // Profiles can be listed and changed without readable settings.
      if (error instanceof Problem) return undefined
      throw error
    }
  }

  async activate(name: string | undefined, model?: Llm): Promise<void> {
    await this.#settings.modify((current) => {
      const updated = model === undefined ? current : withAgentLlm(current, model)
      return updated.active_profile === name ? updated : { ...updated, active_profile: name }
    })
  }

  async rename(name: string, newName: string): Promise<void> {
    await this.#settings.modify((current) =>
      current.active_profile === name ? { ...current, active_profile: newName } : current,
    )
  }
}
