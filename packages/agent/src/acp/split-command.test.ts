import { expect, test } from 'vitest'
import { splitCommand } from './split-command.ts'

test.each([
  ['', []],
  ['  npx  -y pkg ', ['npx', '-y', 'pkg']],
  [`sh -c 'a "b" c'`, ['sh', '-c', 'a "b" c']],
  [String.raw`a\ b "c \"d\" \e" ''`, ['a b', String.raw`c "d" \e`, '']],
  [`x'y'"z"`, ['xyz']],
])('the command line %j has the words %j', (line, words) => expect(splitCommand(line)).toEqual(words))

test.each(["a 'b", 'a "b', 'a\\'])('%j does not end', (line) => expect(splitCommand(line)).toBeUndefined())
