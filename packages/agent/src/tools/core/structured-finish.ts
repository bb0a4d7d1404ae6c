import { type OutputSchema, readOutputSchema } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import type { Tool, ToolAction } from './tool.ts'

const description =
  'Ends the task. Call it when everything is done and checked, or when you cannot get any further. `output` is the result: exactly in the form of its schema, and complete, because nothing else of your answer is read.'

/** The JSON text of a final answer that fits the schema, or what is wrong with it. */
export function readFinalAnswer(
  text: string,
  schema: OutputSchema,
): { readonly message: string } | { readonly issue: string } {
  const value = parseJson(text)
  const issue = value === undefined ? 'it is not JSON' : schema.check(value)
  return issue === undefined ? { message: JSON.stringify(value) } : { issue }
}

/** The finish tool with an `output` by a schema; the action has its JSON text as message. */
export function structuredFinish(finish: Tool, json: Readonly<Record<string, unknown>>): Tool {
  const schema = readOutputSchema(json)
  if ('issue' in schema) throw new Error(schema.issue)
  return {
    ...finish,
    definition: { ...finish.definition, description },
    parameters: {
      type: 'object',
      properties: { output: inlineDefinitions(json) },
      required: ['output'],
      additionalProperties: false,
    },
    parse: (args) => {
      const { output } = args
      const value = typeof output === 'string' ? (parseJson(output) ?? output) : output
      const issue = isRecord(value) ? schema.check(value) : 'output has to be an object'
      if (issue !== undefined) return { error: `The output does not fit its schema: ${issue}.` }
      const action: ToolAction<'FinishAction'> = { kind: 'FinishAction', message: JSON.stringify(value) }
      return { action }
    },
  }
}

/** Local references start at the root of the whole schema, of which this one becomes a member. */
function inlineDefinitions(schema: Readonly<Record<string, unknown>>): unknown {
  return JSON.parse(JSON.stringify(schema), (name, value: unknown) =>
    name === '$ref' && typeof value === 'string' ? value.replace(/^#(?=\/|$)/, '#/properties/output') : value,
  )
}
