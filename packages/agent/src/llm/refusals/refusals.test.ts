import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { openModel } from '../models/open-model.ts'
import { LeftOutInMemory } from './left-out.ts'
import { historyCases } from './testing/history-cases.ts'
import { itemCases } from './testing/item-cases.ts'
import { parameterCases } from './testing/parameter-cases.ts'
import { pictureCases } from './testing/picture-cases.ts'
import { finalAnswers } from './testing/refusal-answers.ts'
import { differences, history, pathOf, settingsOf, tools, type Wire } from './testing/refused-history.ts'
import { RefusingServer } from './testing/refusing-server.ts'

let server: RefusingServer

beforeAll(async () => {
  server = await RefusingServer.open()
})
beforeEach(() => {
  server.requests = []
})
afterAll(() => server[Symbol.asyncDispose]())

const never = new AbortController().signal
const request = (wire: Wire) => ({ messages: history(wire, new URL(server.url).host), tools })

const cases = [...parameterCases, ...pictureCases, ...historyCases, ...itemCases].map((row) => ({
  server: row[0],
  row,
}))

test.each(cases)('$server: exactly what is refused is left out, once', async ({ row }) => {
  const [, wire, mark, says, ...changes] = row
  server.refuse = (body) => {
    const text = JSON.stringify(body)
    if (!text.includes(mark)) return undefined
    const path = pathOf(body, mark.replaceAll('"', '')) ?? []
    const brackets = path.map((one) => (typeof one === 'number' ? `[${one}]` : `.${one}`)).join('')
    return says({ body, path, dots: path.join('.'), brackets: brackets.slice(1) })
  }
  const leftOut = new LeftOutInMemory()
  const first = await openModel(settingsOf(wire, server.url), { leftOut }).generate(request(wire), never)
  expect(first).toMatchObject({ kind: 'reply' })
  expect(server.requests.length).toBeLessThanOrEqual(7)
  const [refused = '', ...later] = server.requests
  const accepted = later.at(-1) ?? refused
  const differing = differences(JSON.parse(refused), JSON.parse(accepted))
  expect(differing).toEqual(changes)
  // Another process knows it by its digest.
  server.requests = []
  const again = await openModel(settingsOf(wire, server.url), { leftOut }).generate(request(wire), never)
  expect(again.kind).toBe('reply')
  expect(server.requests).toEqual([accepted])
})

test.each(finalAnswers)('%s is said at once', async (_, wire, answer) => {
  server.refuse = () => answer
  const model = openModel(settingsOf(wire, server.url))
  expect((await model.generate(request(wire), never)).kind).toBe('failure')
  const asked = server.requests.filter((body) => body !== '')
  expect(asked).toHaveLength(1)
})
