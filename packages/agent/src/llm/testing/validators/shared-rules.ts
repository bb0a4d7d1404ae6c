import { badIds, badInputs, badNames, brokenTexts, repeatedIds, repeatedTools } from './find-text.ts'
import type { Rule } from './rule.ts'

/** Words of a rule that several providers have. */
interface Words {
  readonly source: string
  readonly says: Rule['says']
}

export const wellFormedTexts = ({ source, says }: Words): Rule => ({
  id: 'well-formed',
  refuses: 'half of a surrogate pair in any text or name',
  find: brokenTexts,
  ...{ source, says },
})

export const idForm = (pattern: RegExp, { source, says }: Words): Rule => ({
  id: 'call-id',
  refuses: `call ids other than ${pattern.source}`,
  find: badIds(pattern),
  ...{ source, says },
})

export const uniqueIds = ({ source, says }: Words): Rule => ({
  id: 'unique-call-ids',
  refuses: 'two calls with one id',
  find: repeatedIds,
  ...{ source, says },
})

export const nameForm = (pattern: RegExp, { source, says }: Words): Rule => ({
  id: 'tool-name',
  refuses: `names of tools other than ${pattern.source}`,
  find: badNames(pattern),
  ...{ source, says },
})

export const uniqueTools = ({ source, says }: Words): Rule => ({
  id: 'unique-tools',
  refuses: 'two tools with one name',
  find: repeatedTools,
  ...{ source, says },
})

export const objectInputs = ({ source, says }: Words): Rule => ({
  id: 'arguments',
  refuses: 'arguments of calls that are no JSON object',
  find: badInputs,
  ...{ source, says },
})
