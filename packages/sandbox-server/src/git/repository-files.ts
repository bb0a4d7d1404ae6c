import type { Problem } from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { type RepositoryFiles, splitRepository } from './git-provider.ts'
import type { ProviderPage } from './paged-list.ts'
import { acceptProblem, type ProviderApi } from './provider-api.ts'

/** Of a repository. More are as unexpected as another answer. */
const maxFiles = 10_000

/** GitHub's interface, which Forgejo took over. */
export function githubFiles(api: ProviderApi): RepositoryFiles {
  return {
    async read(repository, path, ref) {
      const params = { ...splitRepository(repository), path }
      const get = () => api.get('/repos/{owner}/{name}/contents/{path*}', { params, query: { ref } })
      return decodeFile(await unlessMissing(get()))
    },
    async list(repository, folder, ref = 'HEAD') {
      const params = { ...splitRepository(repository), ref }
      const path = '/repos/{owner}/{name}/git/trees/{ref*}'
      const { body } = await api.get(path, { params, query: { recursive: 'true' } })
      return filePaths(asRecord(body).tree, folder, api.unexpected())
    },
  }
}

export function gitlabFiles(api: ProviderApi): RepositoryFiles {
  return {
    async read(repository, file, ref = 'HEAD') {
      const path = '/projects/{repository}/repository/files/{file}'
      return decodeFile(await unlessMissing(api.get(path, { params: { repository, file }, query: { ref } })))
    },
    async list(repository, folder, ref = 'HEAD') {
      const list = api.list('/projects/{repository}/repository/tree', {
        params: { repository },
        query: { path: folder, ref, recursive: 'true' },
        read: ({ body }) => filePaths(body, folder, api.unexpected()),
      })
      const files: string[] = []
      for (let cursor: string | undefined = '1'; cursor !== undefined && files.length < maxFiles; ) {
        const page: ProviderPage<string> | undefined = await unlessMissing(list(cursor))
        files.push(...(page?.items ?? []))
        cursor = page?.next
      }
      // A repository that does not exist has a missing folder too.
      if (files.length === 0) await api.get('/projects/{repository}', { params: { repository } })
      return files
    },
  }
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    acceptProblem(error, 'not_found')
    return undefined
  }
}

/** Undefined also for a folder and a file that is too large for the interface. */
function decodeFile(answer: { readonly body: unknown } | undefined): string | undefined {
  const { content, encoding } = asRecord(answer?.body)
  return typeof content === 'string' && encoding === 'base64'
    ? Buffer.from(content, 'base64').toString()
    : undefined
}

function filePaths(entries: unknown, folder: string, unexpected: Problem): string[] {
  if (!Array.isArray(entries) || entries.length > maxFiles) throw unexpected
  return entries.flatMap((entry) => {
    const { type, path } = asRecord(entry)
    return type === 'blob' && typeof path === 'string' && path.startsWith(`${folder}/`) ? [path] : []
  })
}
