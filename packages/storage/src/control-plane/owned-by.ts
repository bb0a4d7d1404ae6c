import type { AdminScope, Scope } from './rows.ts'

interface OwnedRow {
  readonly owner: string | null
  readonly org?: string | null
}

/** Who may see a row: SQL conditions with their values, and the same rule for a row in memory. */
export interface Ownership {
  readonly where: string[]
  readonly values: string[]
  includes<R extends OwnedRow>(row: R | undefined): row is R
}

/** The scope of an administrator who names it: requests of users never have it. */
export const everyOwner: AdminScope = { isEveryOwner: true }

/** Row ownership: the same owner and, if the scope has an organisation, the same organisation. */
export function ownedBy(scope: Scope | AdminScope): Ownership {
  if ('isEveryOwner' in scope) {
    const includes = <R extends OwnedRow>(row: R | undefined): row is R =>
      row !== undefined && row.owner !== null
    return { where: ['owner IS NOT NULL'], values: [], includes }
  }
  const { owner, org } = scope
  return {
    where: [owner === null ? 'owner IS NULL' : 'owner = ?', ...(org === undefined ? [] : ['org = ?'])],
    values: [owner, org].filter((value) => value != null),
    includes: <R extends OwnedRow>(row: R | undefined): row is R =>
      row !== undefined && row.owner === owner && (org === undefined || row.org === org),
  }
}
