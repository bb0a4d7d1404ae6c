import { resolve } from 'node:path'
import type { Handlers } from '@slipway/http'
import { invalid, type skillRoutes } from '@slipway/protocol'
import type { SkillList } from '../skill-list.ts'

/** What a project and a user have for an agent. */
export function skillHandlers({ skills }: { readonly skills: SkillList }): Handlers<typeof skillRoutes> {
  return {
    async listSkills({ body, signal }) {
      const project = body.load_project ? projectOf(body.project_dir) : undefined
      return { json: await skills.skills({ isUser: body.load_user, project }, signal) }
    },
    async getHooks({ body }) {
      return { json: { hook_config: await skills.hooks(projectOf(body.project_dir)) } }
    },
  }
}

function projectOf(path: string | undefined): string | undefined {
  if (path === undefined || path === '') return undefined
  if (path.includes('\0')) throw invalid(['body', 'project_dir'], 'The path contains a NUL byte')
  return resolve(path)
}
