import { expect, test } from 'vitest'
import { ThoughtSplitter } from './thought-splitter.ts'

function split(text: string, size: number) {
  const splitter = new ThoughtSplitter()
  const joined = { text: '', reasoning: '' }
  const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
  for (const piece of [...pieces.map((one) => splitter.add(one)), splitter.end()].flat())
    joined[piece.type] += piece.text
  return joined
}

test.each([
  ['<think>It is grey.</think>\n\nGrey.', 'Grey.', 'It is grey.'],
  ['\n<think>\nA </b> tag.</think>Done.', 'Done.', 'A </b> tag.'],
  ['<thinking>Hm.</thinking>Yes.', 'Yes.', 'Hm.'],
  ['<think></think>Yes.', 'Yes.', ''],
  ['<think>Never ends', '', 'Never ends'],
  ['Use <think> for thoughts.', 'Use <think> for thoughts.', ''],
  ['<table>', '<table>', ''],
  ['  <b', '  <b', ''],
])('%j, in pieces of any size', (received, text, reasoning) => {
  for (const size of [1, 3, 7, 100]) expect(split(received, size)).toEqual({ text, reasoning })
})
