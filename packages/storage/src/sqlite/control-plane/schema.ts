import { readFileSync } from 'node:fs'

/** Migrations of control.db. */
export const controlPlaneMigrations: readonly string[] = [
  readFileSync(new URL('./schema.sql', import.meta.url), 'utf8'),
]
