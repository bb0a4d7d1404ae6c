import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { extensionReaders, type LoadedSkill, parseSource } from '@slipway/agent'
import type { LogFunction, OrgConfig } from '@slipway/protocol'
import { redactText } from '@slipway/shared/redaction'

interface OrgSkillsOptions {
  /** For repositories while they are read. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  readonly log: LogFunction
}

/** Skills of organisations. Their URLs contain credentials, so each use fetches, and nothing is stored. */
export class OrgSkills {
  readonly #options: OrgSkillsOptions

  constructor(options: OrgSkillsOptions) {
    this.#options = options
  }

  /** Repositories that cannot be fetched are skipped. Rejects only when aborted or when the disk fails. */
  async load(configs: readonly OrgConfig[], signal: AbortSignal): Promise<readonly LoadedSkill[]> {
    const all = await Promise.all(configs.map((config) => this.#loadOrganization(config, signal)))
    return all.flat()
  }

  async #loadOrganization(
    { org_repo_url, org_name = '' }: OrgConfig,
    signal: AbortSignal,
  ): Promise<readonly LoadedSkill[]> {
    const { directory, environment } = this.#options
    const source = parseSource({ source: org_repo_url, ref: undefined, repo_path: undefined })
    if ('issue' in source) return this.#logSkipped(org_name, source.issue)
    const { fetchSource, loadCollection } = await extensionReaders()
    const into = join(directory, randomUUID())
    try {
      const fetched = await fetchSource(source, { into, environment }, signal)
      if ('issue' in fetched) return this.#logSkipped(org_name, fetched.issue)
      const { skills } = await loadCollection(into, 'organisation', signal)
      // The files are removed, so the model cannot read them.
      return skills.map((skill) => ({ ...skill, file: undefined, resources: undefined }))
    } finally {
      await rm(into, { recursive: true, force: true })
    }
  }

  #logSkipped(name: string, reason: string): readonly LoadedSkill[] {
    this.#options.log('warn', 'the skills of an organisation were skipped', {
      name: redactText(name),
      reason,
    })
    return []
  }
}
