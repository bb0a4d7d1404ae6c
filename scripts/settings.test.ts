import { type SettingTable, settingRows } from '@slipway/protocol'
import { expect, test } from 'vitest'
import ownPackage from '../package.json' with { type: 'json' }
import { settings as agentServer } from '../packages/agent-server/src/core/config/settings.ts'
import { commandSettings, modelSettings } from '../packages/cli/src/context/settings.ts'
import { settings as sandboxServer } from '../packages/sandbox-server/src/config/settings.ts'

const tables: readonly (readonly [string, SettingTable])[] = [
  ['the agent server', agentServer],
  ['the sandbox server', sandboxServer],
  ['commands', commandSettings],
  ['the model', modelSettings],
]

test.each(tables)(
  'each setting of %s is one row, with sentences and the version that has it first',
  (_, table) => {
    const rows = settingRows(table)
    const names = rows.flatMap(({ name, aliases = [] }) => [name, ...aliases])
    expect(names).toEqual([...new Set(names)])
    for (const { name, description, since } of rows) {
      expect(description, name).toMatch(/^[\w`].*[\w)`]\.$/)
      expect(since, name).toMatch(/^\d+\.\d+\.\d+$/)
      expect(since.localeCompare(ownPackage.version, 'en', { numeric: true }), name).toBeLessThanOrEqual(0)
    }
  },
)

test.each(tables)('each key, header and database among the settings of %s is a secret', (_, table) => {
  const named = settingRows(table).filter(({ name }) =>
    /(?:API|SECRET)_KEY$|(?:OTLP|REFRESH)_HEADERS$|DATABASE_\w*URL$/.test(name),
  )
  expect(named.filter(({ isSecret }) => !isSecret).map(({ name }) => name)).toEqual([])
})
