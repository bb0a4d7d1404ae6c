import { readRepositoryCode } from '@slipway/agent'
import { repositoryIssues } from '../repository-consents/module.ts'
import type { Finding } from './doctor.ts'

const area = 'repository'

/** What a working directory brings that runs with consent, and its files that are skipped because they are invalid. */
export async function examineRepository(directory: string): Promise<Finding[]> {
  const code = await readRepositoryCode(directory)
  const issues = repositoryIssues(code).map(
    (message): Finding => ({
      area,
      level: 'warning',
      message,
      next: 'It does not run until it is corrected.',
    }),
  )
  if (code.items.length === 0) return issues
  const files = [...new Set(code.items.map(({ path }) => path))].join(', ')
  const next = '"slipway trust" shows it and asks; "slipway trust --list" has what was decided.'
  return [{ area, level: 'ok', message: `runs with your consent alone: ${files}`, next }, ...issues]
}
