import { readFile } from 'node:fs/promises'
import { must, Tallies } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { settings } from '../config/config.ts'
import { edges } from '../sandboxes/reconcile/plan.ts'
import { StepNumbers } from '../sandboxes/state/sandbox-repository.ts'
import { stateNumbers } from './state-metrics.ts'

const page = await readFile(new URL('../../../../docs/sandboxes.md', import.meta.url), 'utf8')

/** The rows of the table below a heading of the page, without its head. */
function rowsBelow(heading: string): string[] {
  const section = must(
    page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`)),
    heading,
  )
  const [, table] = /^\|.*\|\n\|[-|]+\|\n((?:\|.*\|\n?)*)/m.exec(section) ?? []
  return must(table, `the table of ${heading}`).trimEnd().split('\n')
}

test('the page of sandboxes has every setting with its meaning and default, and no other', () => {
  const rows = settings().map(({ name, description, otherwise, aliases }) => {
    const also = aliases.length === 0 ? '' : ` Also ${aliases.map((alias) => `\`${alias}\``).join(', ')}.`
    return `| \`${name}\` | ${description}${also} | ${otherwise === '' ? '' : `\`${otherwise}\``} |`
  })
  expect(rowsBelow('Settings').join('\n')).toBe(rows.join('\n'))
  for (const { description } of settings()) expect(description).toMatch(/[\w)]\.$/)
})

test('the page of sandboxes has every state and where it leads, and no other', () => {
  const shown = rowsBelow('States').map((row) => {
    const [, state, , next = ''] = row.split('|').map((cell) => cell.trim())
    return [state, next]
  })
  const known = Object.entries(edges).map(([state, next]) => [
    `\`${state}\``,
    next.map((one) => `\`${one}\``).join(' '),
  ])
  expect(shown).toEqual(known)
})

test('the page of operations has every metric of the sandbox server, and no other', async () => {
  const operations = await readFile(new URL('../../../../docs/operations.md', import.meta.url), 'utf8')
  const families = await stateNumbers({
    sandboxes: { async *all() {} },
    steps: new StepNumbers(),
    starts: { underWay: 0, ended: new Tallies([1], 'outcome') },
  })
  const rows = families.map(({ name, type, help }) => `| \`${name}\` | ${type} | ${help} |`)
  const [, section = ''] = operations.split('### Metrics of the sandbox server\n')
  expect(section.split('\n## ', 1)[0]?.match(/^\| `.*$/gm)).toEqual(rows)
})
