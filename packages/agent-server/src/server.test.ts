import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { agentServerRoutes, consoleRoutes, healthRoutes, initRoutes } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import { systemClock } from '@slipway/shared/time'
import { openServerStorage } from '@slipway/storage'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { compatModules } from './compat/modules.ts'
import { readConfig } from './core/config/config.ts'
import { WorkMetrics } from './core/metrics/work-metrics.ts'
import type { Module } from './core/module.ts'
import { type CoreOptions, coreRoutes } from './core/open-core.ts'
import { Activity } from './core/server/activity.ts'
import { Ingress } from './core/server/ingress.ts'
import { doors, ownModules } from './modules/modules.ts'
import { openServer, routesOf } from './server.ts'

const all = [...ownModules, ...Object.values(doors), ...compatModules]

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-modules-'))
})
afterAll(async () => await rm(directory, { recursive: true }))

/** Opens a server of these modules on a directory, and closes it. */
async function openWith(modules: readonly Module[]) {
  const config = readConfig({ SLIPWAY_NO_KEY: '1' })
  await using storage = await openServerStorage({ directory, log: () => {}, database: undefined })
  const options: CoreOptions = {
    ...{ config, directory, storage, log: () => {}, clock: systemClock, port: () => undefined },
    activity: new Activity(),
    workMetrics: new WorkMetrics({}),
    leftoversKilled: Promise.resolve(),
    ingress: new Ingress(config.applicationIngress),
  }
  await using server = await openServer(options, modules)
  return { routes: Object.keys(server.handlers), sockets: Object.keys(server.sockets) }
}

test('the core and the modules have every route once', () => {
  const tables = [coreRoutes, healthRoutes, consoleRoutes, initRoutes, ...all.map(({ routes }) => routes)]
  const names = tables.flatMap((table) => Object.keys(table))
  expect(names.toSorted()).toEqual(Object.keys(agentServerRoutes).toSorted())
})

test('a module is in the list after those that it needs, and gives a handler for each of its routes', async () => {
  const opened = await openWith(all)
  expect(opened.routes.toSorted()).toEqual(Object.keys(routesOf(all)).toSorted())
  expect(opened.sockets).toEqual([
    '/sockets/events/{conversation_id}',
    '/sockets/session/{conversation_id}',
    '/sockets/bash-events',
  ])
})

test.each(all.map((module) => [module.name, module] as const))(
  'without the module %s the server has all other routes, or says which module needs it',
  async (name, module) => {
    const rest = all.filter((one) => one !== module)
    const dependent = rest.find(({ needs }) => needs.includes(module))
    const opening = openWith(rest)
    if (dependent !== undefined)
      await expect(opening).rejects.toThrow(
        `The module ${dependent.name} needs the module ${name}, which is not opened before it`,
      )
    else expect((await opening).routes.toSorted()).toEqual(Object.keys(routesOf(rest)).toSorted())
  },
)

test('the modules of our own work without those of the reference', async () => {
  const { routes } = await openWith(ownModules)
  expect(routes.toSorted()).toEqual(Object.keys(routesOf(ownModules)).toSorted())
  expect(definedMembers({ lost: ownModules.find(({ needs }) => needs.some(isCompat)) })).toEqual({})
})

function isCompat(module: Module): boolean {
  return compatModules.includes(module)
}
