import type { Scope } from './control-plane-store.ts'

interface OwnedRow {
  readonly owner: string | null
  readonly org?: string | null
}

/** Who may see a row: conditions of SQL with their values, and the same rule for a row in memory. */
export interface Ownership {
  readonly where: string[]
  readonly values: (string | null)[]
  includes<R extends OwnedRow>(row: R | undefined): row is R
}

/**
 * The one rule of row ownership: the owner is the same and, where the scope names an organisation, so is that. A scope without
 * an organisation sees the owner's rows in all of them.
 */
export function ownedBy({ owner, org }: Scope): Ownership {
  return {
    where: org === undefined ? ['owner IS ?'] : ['owner IS ?', 'org = ?'],
    values: org === undefined ? [owner] : [owner, org],
    includes: <R extends OwnedRow>(row: R | undefined): row is R =>
      row !== undefined && row.owner === owner && (org === undefined || row.org === org),
  }
}
