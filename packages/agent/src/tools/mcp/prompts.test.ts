import { expect, test } from 'vitest'
import { type McpPrompt, promptArguments } from './prompts.ts'

function promptOf(...names: readonly string[]): McpPrompt {
  const own = names.map((name) => ({ name, description: undefined, required: true }))
  return { server: 's', name: 'p', title: undefined, description: undefined, arguments: own }
}

test('arguments may have the names of members of every object', () => {
  const names = ['constructor', '__proto__', 'toString']
  const given = promptArguments(promptOf(...names), 'a __proto__=b c')
  expect(Object.entries(given).sort()).toEqual([
    ['__proto__', 'b'],
    ['constructor', 'a'],
    ['toString', 'c'],
  ])
  expect(() => promptArguments(promptOf('constructor'), '')).toThrow('The prompt needs constructor')
})
